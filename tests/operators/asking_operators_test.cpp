// SPDX-License-Identifier: Apache-2.0
// The decisions of the operators that ask a model: which model, which kernel, which direction.
#include <boost/test/unit_test.hpp>
#include <set>

#include "operators/critique_repair.hpp"
#include "operators/crossover.hpp"
#include "operators/mutate.hpp"
#include "operators/portfolio.hpp"
#include "operators/registry.hpp"

using namespace cultivar;

namespace {

struct Farm {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  Facts facts{{"num_cores", 4.0}};
  Archive archive;
  std::function<std::string(const std::string&)> source_of = [](const std::string&) { return std::string(); };
  RandomStream stream = stream_of(1, "test", 0);

  IndividualId add(const std::string& source, const std::string& op, std::vector<IndividualId> parents = {}) {
    Individual individual;
    individual.id = archive.size() + 1;
    individual.source_id = source;
    set_origin(individual.descent, op);
    individual.descent.parents = std::move(parents);
    archive.add(individual);
    return individual.id;
  }
  OperatorContext around(std::vector<IndividualId> parents) {
    return {task, workloads, facts, archive, source_of, 0, std::move(parents)};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(asking_operators, Farm)

BOOST_AUTO_TEST_CASE(mutation_tries_every_direction_of_the_target_before_any_twice) {
  const IndividualId parent = add("a", "seed");
  Mutate mutate;
  std::set<std::string> seen;
  const std::size_t fit = directions(target_named("cpu")).size();
  for (std::size_t i = 0; i < fit; ++i) {
    const auto brief = mutate.plan(around({parent}), stream);
    BOOST_REQUIRE(brief);
    BOOST_TEST(seen.insert(brief->direction).second, brief->direction);
    mutate.asked(*brief, archive);
  }
  for (const Direction& d : target_named("cuda")->directions)
    BOOST_TEST(!seen.contains(std::string(d.words)));
  BOOST_TEST(seen.contains(mutate.plan(around({parent}), stream)->direction));
}

BOOST_AUTO_TEST_CASE(tensor_cores_are_a_direction_only_where_there_is_much_arithmetic_for_each_byte) {
  const IndividualId parent = add("a", "seed");
  const auto tried = [&](const Task& of, bool apt) {
    const std::vector<Workload> shapes = of.workloads("quick")->workloads;
    OperatorContext s{of, shapes, facts, archive, source_of, 0, {parent}, target_named("cuda")};
    s.apt_directions = apt;
    Mutate mutate;
    std::set<std::string> seen;
    for (int i = 0; i < 30; ++i) {
      const auto brief = mutate.plan(s, stream);
      mutate.asked(*brief, archive);
      seen.insert(brief->direction);
    }
    return seen;
  };
  const Task attention = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/attention_forward");
  const std::string tensor(target_named("cuda")->directions.at(0).words);
  BOOST_REQUIRE(tensor.starts_with("feed the tensor cores"));
  BOOST_TEST(tried(attention, true).contains(tensor));
  BOOST_TEST(!tried(task, true).contains(tensor));
  BOOST_TEST(tried(task, false).contains(tensor));  // as records of earlier rules have it
  BOOST_TEST(tried(task, true).size() == tried(task, false).size() - 1U);
}

BOOST_AUTO_TEST_CASE(fewer_instructions_are_no_direction_on_a_gpu_whose_time_goes_to_the_bytes) {
  const IndividualId parent = add("a", "seed");
  const auto has = [&](const char* folder, const char* target, bool limited) {
    const Task of = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/" + folder);
    const std::vector<Workload> shapes = of.workloads("quick")->workloads;
    OperatorContext s{of, shapes, facts, archive, source_of, 0, {parent}, target_named(target)};
    s.apt_directions = true;
    s.limited_by_bytes = limited;
    Mutate mutate;
    bool found = false;
    for (int i = 0; i < 30; ++i) {
      const auto brief = mutate.plan(s, stream);
      mutate.asked(*brief, archive);
      found = found || brief->direction.starts_with("spend fewer instructions");
    }
    return found;
  };
  BOOST_TEST(!has("softmax", "cuda", true));
  BOOST_TEST(has("softmax", "cuda", false));  // as records of earlier rules have it
  BOOST_TEST(has("softmax", "cpu", true));
  BOOST_TEST(has("attention_forward", "cuda", true));
}

BOOST_AUTO_TEST_CASE(directions_that_a_model_gave_are_followed_once_each_about_their_subject) {
  const IndividualId subject = add("a", "seed"), tuned = add("a", "tune", {subject}),
                     other = add("b", "seed");
  for (const IndividualId id : {subject, tuned, other})
    archive.judge(id, true, 1.0 + 0.1 * static_cast<double>(id));
  for (const char* name : {"mutate", "agent"}) {
    const auto made = make_operator(name, {});
    AskingOperator& op = *made->asking();
    const auto usual = op.plan(around({other}), stream);
    op.directed(subject, {{"of an older answer"}});
    op.directed(subject, {{"fuse the passes", "pack the operands"}});
    for (const char* words : {"fuse the passes", "pack the operands"}) {
      const auto brief = op.plan(around({other}), stream);
      BOOST_REQUIRE(brief);
      BOOST_TEST(brief->direction == words);
      BOOST_TEST((brief->parents == std::vector<IndividualId>{tuned}));  // the subject's best setting
      op.asked(*brief, archive);
    }
    const auto after = op.plan(around({other}), stream);
    BOOST_REQUIRE(after);
    BOOST_TEST((after->parents == usual->parents));
    BOOST_TEST(after->direction != "fuse the passes");
    op.directed(subject, {{"fuse the passes", "pack the operands"}});
    BOOST_TEST(!op.drop_directions("another"));
    BOOST_TEST(op.drop_directions("pack the operands"));
    BOOST_TEST((op.plan(around({other}), stream)->parents == usual->parents));
  }
}

BOOST_AUTO_TEST_CASE(directions_about_a_kernel_that_turned_out_wrong_wait_and_nothing_is_asked_about_it) {
  const IndividualId wrong = add("a", "seed"), other = add("b", "seed");
  archive.judge(wrong, true, 2.0);
  archive.judge(other, true, 1.0);
  Mutate mutate;
  mutate.directed(wrong, {{"fuse the passes"}});
  archive.expel(wrong);
  BOOST_TEST((mutate.plan(around({other}), stream)->parents == std::vector<IndividualId>{other}));
}

BOOST_AUTO_TEST_CASE(crossover_takes_two_sources_and_each_pair_once) {
  const IndividualId a = add("a", "seed"), same = add("a", "tune", {a}), b = add("b", "seed");
  Crossover crossover;
  BOOST_TEST(!crossover.plan(around({a}), stream).has_value());
  BOOST_TEST(!crossover.plan(around({a, same}), stream).has_value());
  // Selection gave two of one source: the fittest of another is taken, with its best setting.
  archive.judge(a, true, 3.0);
  archive.judge(same, true, 4.0);
  archive.judge(b, true, 1.0);
  const auto found = crossover.plan(around({a, same}), stream);
  BOOST_REQUIRE(found);
  BOOST_TEST((found->parents == std::vector<IndividualId>{same, b}));
  const auto brief = crossover.plan(around({a, b}), stream);
  BOOST_REQUIRE(brief);
  crossover.asked(*brief, archive);
  BOOST_TEST(!crossover.plan(around({same, b}), stream).has_value());
  BOOST_TEST(crossover.plan(around({b, a}), stream).has_value());  // the other is edited
}

BOOST_AUTO_TEST_CASE(crossover_rather_takes_a_partner_that_is_not_shown_to_be_slower_everywhere) {
  const IndividualId a = add("a", "seed"), b = add("b", "seed"), c = add("c", "seed"), d = add("d", "seed");
  for (const IndividualId id : {a, b, c, d}) archive.judge(id, true, 4.0 - 0.1 * static_cast<double>(id));
  const SpeedRatio slower{-0.2, -0.3, -0.1}, faster{0.1, 0.05, 0.15};
  archive.settle(b, 3.0, {a, Verdict::worse, slower, {slower, slower}});
  archive.settle(c, 2.9, {a, Verdict::worse, slower, {slower, slower}});
  archive.settle(d, 2.8, {a, Verdict::worse, slower, {slower, faster}});
  OperatorContext s = around({a, b});
  const auto parents = [&] { return Crossover().plan(s, stream)->parents; };
  BOOST_TEST((parents() == std::vector<IndividualId>{a, b}));  // as records of earlier rules have it
  s.mutual_gain = true;
  BOOST_TEST((parents() == std::vector<IndividualId>{a, d}));
  archive.settle(d, 2.8, {a, Verdict::worse, slower, {slower, slower}});
  BOOST_TEST((parents() == std::vector<IndividualId>{a, b}));  // there is no other
  archive.settle(b, 3.0, {a, Verdict::worse, slower, {slower}});
  archive.settle(d, 2.8, {a, Verdict::worse, slower, {slower, faster}});
  BOOST_TEST((parents() == std::vector<IndividualId>{a, b}));  // one workload says nothing of the others
}

BOOST_AUTO_TEST_CASE(crossover_asks_only_of_a_pair_that_duels_show_to_differ) {
  const IndividualId a = add("a", "seed"), b = add("b", "seed");
  for (const IndividualId id : {a, b}) archive.judge(id, true, 4.0 - 0.1 * static_cast<double>(id));
  OperatorContext s = around({a, b});
  s.frugal = true;
  BOOST_TEST(!Crossover().plan(s, stream).has_value());  // one measurement of each shows nothing
  const SpeedRatio slower{-0.2, -0.3, -0.1}, faster{0.1, 0.05, 0.15}, open{0.01, -0.1, 0.12};
  archive.settle(b, 3.0, {a, Verdict::undecided, open, {open, open}});
  BOOST_TEST(!Crossover().plan(s, stream).has_value());
  archive.settle(b, 3.0, {a, Verdict::worse, slower, {slower, slower}});
  BOOST_TEST(!Crossover().plan(s, stream).has_value());  // b has no speed to give
  archive.settle(b, 3.0, {a, Verdict::worse, slower, {slower, faster}});
  const auto brief = Crossover().plan(s, stream);
  BOOST_REQUIRE(brief);
  BOOST_TEST((brief->parents == std::vector<IndividualId>{a, b}));
}

BOOST_AUTO_TEST_CASE(nothing_far_behind_is_criticised_or_repaired) {
  CritiqueRepair repair(2);
  const IndividualId slow = add("a", "seed"), fast = add("b", "seed");
  archive.judge(slow, true, 4.0);
  archive.judge(fast, true, 9.0);
  const IndividualId of_slow = add("c", "mutate", {slow}), of_fast = add("d", "mutate", {fast});
  for (const IndividualId id : {of_fast, of_slow}) {
    archive.judge(id, false, 0.0);
    repair.observe(id, archive);
  }
  OperatorContext s = around({slow});
  BOOST_TEST(repair.plan(s, stream)->parents.front() == of_slow);  // as records of earlier rules have it
  s.frugal = true;
  auto brief = repair.plan(s, stream);
  BOOST_REQUIRE(brief);
  BOOST_TEST(brief->parents.front() == of_fast);
  repair.asked(*brief, archive);
  BOOST_TEST(!repair.plan(s, stream).has_value());
  s.parents = {fast};
  BOOST_TEST(repair.plan(s, stream)->parents.front() == fast);
}

BOOST_AUTO_TEST_CASE(failures_are_repaired_newest_first_for_as_many_rounds_as_allowed) {
  CritiqueRepair repair(2);
  const IndividualId seed = add("a", "seed");
  archive.judge(seed, true, 1.0);
  repair.observe(seed, archive);
  const auto fail = [&](const std::string& source, const std::string& op, IndividualId parent) {
    const IndividualId id = add(source, op, {parent});
    archive.judge(id, false, 0.0);
    repair.observe(id, archive);
    return id;
  };
  (void)fail("a", "tune", seed);  // other values are tried anyway
  const IndividualId first = fail("b", "mutate", seed), second = fail("c", "mutate", seed);
  auto brief = repair.plan(around({seed}), stream);
  BOOST_TEST(brief->parents.front() == second);
  BOOST_TEST(brief->round == 1);
  repair.asked(*brief, archive);
  const IndividualId again = fail("d", "critique_repair", second);
  brief = repair.plan(around({seed}), stream);
  BOOST_TEST(brief->parents.front() == again);
  BOOST_TEST(brief->round == 2);
  repair.asked(*brief, archive);
  (void)fail("e", "critique_repair", again);  // two rounds are enough
  brief = repair.plan(around({seed}), stream);
  BOOST_TEST(brief->parents.front() == first);
  repair.asked(*brief, archive);
  // No failures are left: choose the slow kernel once.
  brief = repair.plan(around({seed}), stream);
  BOOST_TEST(brief->parents.front() == seed);
  BOOST_TEST(brief->direction.find("slow") != std::string::npos);
  repair.asked(*brief, archive);
  BOOST_TEST(!repair.plan(around({seed}), stream).has_value());
}

BOOST_AUTO_TEST_CASE(a_portfolio_has_an_arm_for_each_model_of_an_operator_and_draws_among_the_open_ones) {
  std::vector<Portfolio::Share> shares;
  shares.push_back({make_operator("tune", {1}), 2.0, {}});
  shares.push_back({make_operator("mutate", {1}), 2.0, {"x", "y"}});
  const Portfolio portfolio(std::move(shares));
  BOOST_REQUIRE(portfolio.arms().size() == 3U);
  BOOST_TEST(portfolio.arms()[2].weight == 1.0);
  BOOST_TEST(portfolio.arm_of("mutate", "y") == 2U);
  BOOST_TEST(portfolio.arm_of("seed", "") == 3U);
  const auto order = portfolio.order(stream, [](const Portfolio::Arm& arm) { return arm.model != "x"; });
  BOOST_TEST(order.size() == 2U);
  std::vector<Portfolio::Share> nobody;
  nobody.push_back({make_operator("mutate", {1}), 1.0, {}});
  BOOST_CHECK_THROW(Portfolio(std::move(nobody)), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
