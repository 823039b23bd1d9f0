// What the operators that ask a model decide: whom, about whom, in which direction.
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
    individual.descent.op = op;
    individual.descent.parents = std::move(parents);
    archive.add(individual);
    return individual.id;
  }
  Surroundings around(std::vector<IndividualId> parents) {
    return {task, workloads, facts, archive, source_of, 0, std::move(parents)};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(asking_operators, Farm)

BOOST_AUTO_TEST_CASE(mutation_tries_every_direction_of_the_target_before_any_twice) {
  const IndividualId parent = add("a", "seed");
  Mutate mutate;
  std::set<std::string> seen;
  std::size_t fit = 0;
  for (const Direction& d : directions()) fit += d.target.empty() || d.target == "cpu";
  for (std::size_t i = 0; i < fit; ++i) {
    const auto brief = mutate.plan(around({parent}), stream);
    BOOST_REQUIRE(brief);
    BOOST_TEST(seen.insert(brief->direction).second, brief->direction);
    mutate.asked(*brief, archive);
  }
  for (const Direction& d : directions())
    if (d.target == "cuda") BOOST_TEST(!seen.contains(std::string(d.words)));
  BOOST_TEST(seen.contains(mutate.plan(around({parent}), stream)->direction));
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
  // Nothing failed any more: the slow one, once.
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
