// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/specialists.hpp"

#include <boost/test/unit_test.hpp>
#include <map>

#include "population/archive.hpp"

using namespace cultivar;

namespace {

// Individuals of one source each; 1 is the fittest, 3 the fastest on the second workload.
struct Population {
  Archive archive;
  std::unique_ptr<Strategy> strategy;

  explicit Population(double share) {
    PopulationOptions options;
    options.strategy = StrategyKind::lineage;
    options.specialists = share;
    strategy = make_strategy(options);
    add(1, 10.0, {10.0, 10.0});
    add(2, 9.0, {9.0, 9.0});
    add(3, 5.0, {1.0, 25.0});
    strategy->promoted(2);
    strategy->promoted(1);
  }
  void add(IndividualId id, double fitness, std::vector<double> values) {
    Individual individual;
    individual.id = id;
    individual.source_id = std::to_string(id);
    archive.add(individual);
    archive.judge(id, true, fitness);
    Findings findings;
    findings.measured = true;
    findings.fitness = fitness;
    findings.workload_values = std::move(values);
    strategy->settle(id, findings, archive);
  }
  // How often each individual is the only parent.
  std::map<IndividualId, int> drawn(int times, const ParentsWanted& wanted = {}) {
    std::map<IndividualId, int> counts;
    RandomStream stream = stream_of(1, "parents", 0);
    for (int i = 0; i < times; ++i) ++counts[strategy->parents(0, wanted, archive, stream).front()];
    return counts;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(specialists)

BOOST_AUTO_TEST_CASE(the_fastest_of_each_workload_stays_a_parent) {
  BOOST_TEST(Population(0.0).drawn(100).size() == 1U);
  Population population(1.0);
  const auto counts = population.drawn(1000);
  BOOST_TEST(counts.size() == 2U);
  BOOST_TEST(counts.at(1) > 400);
  BOOST_TEST(counts.at(3) > 400);
  BOOST_TEST(population.strategy->elites(0).size() == 2U);
  BOOST_TEST(Population(0.2).drawn(1000).at(1) > 800);
}

BOOST_AUTO_TEST_CASE(a_specialist_is_avoided_expelled_and_revalued) {
  Population population(1.0);
  BOOST_TEST(!population.drawn(100, {.avoid = {"3"}}).contains(3));
  population.strategy->revalue(3, 1.0);  // its duel says a fifth, so 5 on the second workload
  BOOST_TEST(!population.drawn(100).contains(3));
  population.strategy->revalue(3, 5.0);
  population.strategy->expel(3);
  BOOST_TEST(!population.drawn(100).contains(3));
}

BOOST_AUTO_TEST_CASE(two_parents_are_the_usual_first_one_and_the_specialist) {
  Population population(1.0);
  RandomStream stream = stream_of(1, "parents", 0);
  bool both = false;
  for (int i = 0; i < 100; ++i) {
    const auto parents = population.strategy->parents(0, {.count = 2}, population.archive, stream);
    BOOST_REQUIRE(parents.size() == 2U);
    BOOST_TEST(parents[0] != parents[1]);
    both |= parents == std::vector<IndividualId>{1, 3};
  }
  BOOST_TEST(both);
}

BOOST_AUTO_TEST_SUITE_END()
