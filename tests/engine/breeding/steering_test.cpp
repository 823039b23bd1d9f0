// SPDX-License-Identifier: Apache-2.0
// What an intervention changes: the shares of operators, and which ancestors begin a new line.
#include "engine/breeding/steering.hpp"

#include <boost/test/unit_test.hpp>

#include "operators/registry.hpp"
#include "support/settled.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

Portfolio portfolio() {
  std::vector<Portfolio::Share> shares;
  shares.push_back({make_operator("tune", {}), 1.0});
  shares.push_back({make_operator("mutate", {}), 1.0, {"m"}});
  shares.push_back({make_operator("plan", {}), 1.0, {"m"}});
  return Portfolio(std::move(shares));
}

Intervention with(Answer answer) {
  Intervention intervention;
  intervention.answer = answer;
  return intervention;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steering)

BOOST_AUTO_TEST_CASE(more_questions_for_other_directions_and_more_tuning_without_a_model) {
  const Portfolio all = portfolio();
  const std::vector<double> shares{0.5, 0.3, 0.2};
  const auto after = [&](Answer answer) { return steered(shares, all.arms(), with(answer)); };
  BOOST_TEST(steered(shares, all.arms(), {}) == shares, boost::test_tools::per_element());
  BOOST_TEST(after(Answer::direction)[0] == 0.5);
  BOOST_TEST(after(Answer::direction)[1] == 1.2);
  BOOST_TEST(after(Answer::tuning)[0] == 2.0);
  BOOST_TEST(after(Answer::tuning)[1] == 0.3);
}

BOOST_AUTO_TEST_CASE(only_answers_with_means_are_possible) {
  const Portfolio all = portfolio();
  std::vector<Portfolio::Share> tune;
  tune.push_back({make_operator("tune", {}), 1.0});
  const Portfolio alone(std::move(tune));
  PopulationOptions options;
  const auto strategy = make_strategy(options);
  Archive archive;
  settle(*strategy, archive, {.founder = true});
  using enum Answer;
  BOOST_TEST((possible_answers(alone.arms(), *strategy, options.strategy, {}) == std::set{tuning, reset}));
  settle(*strategy, archive, {.parents = {1}});
  BOOST_TEST((possible_answers(all.arms(), *strategy, options.strategy, {1}) ==
              std::set{direction, parent, ancestor, tuning, plan, reset}));
  BOOST_TEST((possible_answers(all.arms(), *strategy, StrategyKind::lineage, {1}) ==
              std::set{direction, ancestor, tuning, plan, reset}));
}

BOOST_AUTO_TEST_CASE(ancestors_come_from_the_middle_of_the_line_back_to_the_seed) {
  Archive archive;
  const auto strategy = make_strategy({});
  settle(*strategy, archive, {.source = "seed", .founder = true});
  settle(*strategy, archive, {.source = "seed", .parents = {1}});  // a tuning of it
  for (IndividualId parent = 2; parent <= 6; ++parent) settle(*strategy, archive, {.parents = {parent}});
  settle(*strategy, archive, {.source = "source of 7", .parents = {7}});  // a tuning of the best
  archive.expel(4);
  // Sources: seed (1), 3, 5, 6, best (7, 8).
  BOOST_TEST(older_ancestors(8, archive) == (std::vector<IndividualId>{5, 3, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(older_ancestors(1, archive).empty());
  BOOST_TEST(older_ancestors(0, archive).empty());
}

BOOST_AUTO_TEST_CASE(only_the_latest_uses_are_avoided) {
  Lately lately;
  lately.used("old", "old direction");
  for (int i = 0; i < 12; ++i) lately.used("new", i == 0 ? "new direction" : "");
  BOOST_TEST((lately.sources() == std::set<std::string>{"new"}));
  BOOST_TEST((lately.directions() == std::set<std::string>{"new direction"}));
}

BOOST_AUTO_TEST_SUITE_END()
