// SPDX-License-Identifier: Apache-2.0
#include "population/archive.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "population/individual.hpp"

using namespace cultivar;

namespace {

Individual individual(IndividualId id, std::vector<IndividualId> parents = {}) {
  Individual i;
  i.id = id;
  i.source_id = id % 2 ? "odd" : "even";
  set_origin(i.descent, parents.empty() ? "seed" : "tune");
  i.descent.parents = std::move(parents);
  i.descent.island = static_cast<int>(id % 3);
  i.configuration = {{"BLOCK", std::int64_t{16 * id}}, {"LAYOUT", std::string("packed")}};
  return i;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(archive)

BOOST_AUTO_TEST_CASE(gives_back_what_it_was_given) {
  Archive archive;
  for (IndividualId id = 1; id <= 5; ++id)
    archive.add(individual(id, id > 2 ? std::vector<IndividualId>{1, 2} : std::vector<IndividualId>{}));
  archive.judge(3, true, 7.5);
  archive.judge(4, false, 0.0, 3);
  const Member third = archive.member(3);
  BOOST_TEST((third.configuration == individual(3).configuration));
  BOOST_TEST((third.parents == std::vector<IndividualId>{1, 2}));
  BOOST_TEST(third.source_id == "odd");
  BOOST_TEST(third.op == "tune");
  BOOST_TEST((archive.origin(1) == Origin::seed));
  BOOST_TEST(third.fitness == 7.5);
  BOOST_TEST(archive.duplicate_of(4) == 3);
  BOOST_TEST((archive.in_flight() == std::vector<IndividualId>{1, 2, 5}));
}

BOOST_AUTO_TEST_CASE(a_duel_replaces_a_measured_fitness_and_tells_how_wrong_measurements_are) {
  Archive archive;
  for (IndividualId id = 1; id <= 4; ++id) {
    archive.add(individual(id));
    archive.judge(id, true, 10.0 * static_cast<double>(id));
  }
  BOOST_TEST(archive.duel(2) == nullptr);
  DuelResult result{1, Verdict::better, {0.05, 0.01, 0.1}, {{0.02}, {0.08}}};
  archive.settle(2, 10.5, result);
  BOOST_TEST(archive.fitness(2) == 10.5);
  BOOST_REQUIRE(archive.duel(2));
  BOOST_TEST((*archive.duel(2) == result));
  BOOST_TEST(!archive.error_of_measurements().has_value());
  archive.settle(3, 30.0 / 1.1, result);
  archive.settle(4, 40.0 / 1.1, result);
  archive.settle(2, 20.0 / 1.1, result);  // the error is that of its measurement, not of the earlier duel
  BOOST_TEST(archive.error_of_measurements().value() == std::log(1.1), boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_gain_is_said_with_its_bounds) {
  BOOST_TEST(gain_words({0.0430595, 0.0382587, 0.0487902}) == "+4.4 % (+3.9 to +5.0 %)");
  BOOST_TEST(gain_words({0.0430595}) == "+4.4 % (no bounds yet)");
  SpeedRatio slower{-0.02};
  slower.upper = -0.005;
  BOOST_TEST(gain_words(slower) == "-2.0 % (at most -0.5 %)");
  BOOST_TEST(gain_words({2.0794415, 2.0, 2.2}) == "+700 % (+639 to +803 %)");
  Decision decision;
  BOOST_TEST(!result_of(decision, 1).has_value());  // nothing was timed
  decision.blocks = 3;
  decision.lower = -std::numeric_limits<double>::infinity();
  decision.upper = std::numeric_limits<double>::infinity();
  BOOST_TEST(!result_of(decision, 7).has_value());  // undecided, without bounds
  decision.verdict = Verdict::worse;
  BOOST_TEST(result_of(decision, 7).value().incumbent == 7);
  decision.verdict = Verdict::undecided;
  decision.log_ratio = 0.01;
  decision.lower = -0.03;
  decision.upper = 0.05;
  BOOST_TEST(result_of(decision, 7).has_value());
  decision.upper = 0.3;
  BOOST_TEST(!result_of(decision, 7).has_value());
  decision.blocks =
      4;  // bounds hold at a small alpha; the median of four pairs says more than one measurement
  BOOST_TEST(result_of(decision, 7).has_value());
}

BOOST_AUTO_TEST_CASE(refuses_an_id_out_of_order) {
  Archive archive;
  BOOST_CHECK_THROW(archive.add(individual(2)), std::logic_error);
  BOOST_CHECK_THROW(archive.member(1), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(the_first_of_equal_kernels_is_the_one_that_counts) {
  Novelty novelty;
  BOOST_TEST(!novelty.with_variant("abc"));
  novelty.add_variant("abc", 1);
  novelty.add_variant("abc", 2);
  BOOST_TEST(novelty.with_variant("abc").value() == 1);
  novelty.add_machine_code("", 3);
  BOOST_TEST(!novelty.with_machine_code(""));
  novelty.add_machine_code("code", 4);
  BOOST_TEST(novelty.with_machine_code("code").value() == 4);
}

BOOST_AUTO_TEST_CASE(lineage_leads_from_the_seed_by_first_parents) {
  // 1 -> 2 -> 4 -> 5,  3 -> 4 (second parent), 6 alone
  const std::vector<std::vector<IndividualId>> parents{{}, {1}, {}, {2, 3}, {4}, {}};
  const ParentsOf parents_of = [&](IndividualId id) { return parents[static_cast<std::size_t>(id - 1)]; };
  BOOST_TEST((chain_to_seed(5, parents_of) == std::vector<IndividualId>{1, 2, 4, 5}));
  BOOST_CHECK_THROW(chain_to_seed(1, [](IndividualId) { return std::vector<IndividualId>{1}; }),
                    std::logic_error);
}

BOOST_AUTO_TEST_CASE(two_are_in_one_line_only_if_one_descends_from_the_other) {
  const std::vector<std::vector<IndividualId>> parents{{}, {1}, {1}, {3, 2}, {3}};
  const ParentsOf parents_of = [&](IndividualId id) { return parents[static_cast<std::size_t>(id - 1)]; };
  BOOST_TEST(in_one_line(1, 4, parents_of));
  BOOST_TEST(in_one_line(4, 2, parents_of));  // by the second parent
  BOOST_TEST(!in_one_line(4, 5, parents_of));
  BOOST_TEST(!in_one_line(2, 3, parents_of));
}

BOOST_AUTO_TEST_CASE(a_family_begins_with_a_source_that_was_written_from_a_founder) {
  Archive archive;
  const auto add = [&](const std::string& source, std::vector<IndividualId> parents) {
    Individual i;
    i.id = archive.size() + 1;
    i.source_id = source;
    i.descent.parents = std::move(parents);
    archive.add(i);
    return i.id;
  };
  const IndividualId seed = add("seed", {}), tuned = add("seed", {seed}), idea = add("idea", {tuned}),
                     child = add("child", {idea}), other = add("other", {seed});
  BOOST_TEST(archive.family(tuned) == seed);
  BOOST_TEST(archive.family(child) == idea);
  BOOST_TEST(archive.family(other) == other);
  BOOST_TEST(archive.family(add("more", {child})) == idea);
  const IndividualId second = add("seed 2", {});
  BOOST_TEST(archive.family(add("seed 2", {second, child})) == second);
  BOOST_CHECK_THROW(add("loop", {archive.size() + 1}), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()
