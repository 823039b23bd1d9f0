// SPDX-License-Identifier: Apache-2.0
// The parents that a record tells are those that the search itself has.
#include "engine/history/present_population.hpp"

#include <SQLiteCpp/Database.h>
#include <boost/test/unit_test.hpp>
#include <map>

#include "engine/history/rebuild.hpp"
#include "engine/store/recorded_run.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::atomic<bool> kNever{false};
const std::string kOften =
    "supervisor={evaluations: 6, term: 4, failures: 0, repetitions: 0, trials: 0, roofline: 0}";

struct Searched : ScratchFolder {
  std::filesystem::path run = path() / "run";

  Record record() const {
    auto opened = Record::open(run);
    BOOST_REQUIRE(opened);
    return std::move(*opened);
  }
  void search(std::vector<std::string> overrides, int evaluations) {
    overrides.push_back("budget.evaluations=" + std::to_string(evaluations));
    const Config config = softmax_config(path() / "config", overrides);
    BOOST_REQUIRE(begin_search(config, run, simulated_runtime({}), {}, kNever));
  }
  void go_on(int evaluations) {
    BOOST_REQUIRE(resume_search(run, {"budget.evaluations=" + std::to_string(evaluations)},
                                simulated_runtime({}), {}, kNever));
  }
  // As a resumed search has it.
  void require_the_same_as_the_search(const PresentPopulation& population) const {
    const Record one = record();
    const RunFacts facts = one.facts();
    const Config config =
        recorded_config(facts.config_yaml, RunFolder(run), {}, simulated_runtime({}).installation);
    BOOST_TEST((population.options() == config.population));
    ParsedSources sources(*config.task, [&](const std::string& id) { return one.source_named(id); });
    Breeding breeding(config, facts_in(facts.environment), sources);
    Listener listener;
    apply_decisions(one, breeding, listener);
    BOOST_REQUIRE(population.strategy().islands() == breeding.strategy().islands());
    for (int island = 0; island < breeding.strategy().islands(); ++island)
      BOOST_TEST((population.strategy().elites(island) == breeding.strategy().elites(island)),
                 "island " << island);
    BOOST_TEST(!breeding.strategy().elites(0).empty());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(present_population, Searched)

BOOST_AUTO_TEST_CASE(it_is_that_of_the_search_also_when_the_search_went_on_meanwhile) {
  for (const std::string strategy : {"islands", "lineage", "map_elites"}) {
    BOOST_TEST_CONTEXT(strategy) {
      std::filesystem::remove_all(run);
      std::vector<std::string> overrides{"population.strategy=" + strategy, "population.specialists=0.2",
                                         kOften};
      if (strategy == "islands")
        for (const char* more :
             {"population.migrate_every=10", "population.reset_after=8", "population.elites=4"})
          overrides.emplace_back(more);
      if (strategy == "map_elites") overrides.emplace_back("population.axes=[family, UNROLL]");
      search(overrides, 60);
      const Record one = record();
      PresentPopulation following(one);
      following.update(one);
      require_the_same_as_the_search(following);
      go_on(140);
      following.update(one);
      require_the_same_as_the_search(following);
      PresentPopulation at_once(one);
      at_once.update(one);
      require_the_same_as_the_search(at_once);
      BOOST_TEST((at_once.moved() > 0) == (strategy == "islands"));
      BOOST_TEST(at_once.moved() == following.moved());
      BOOST_TEST(at_once.cells().empty() == (strategy != "map_elites"));
      if (strategy != "map_elites") continue;
      // Different values of the tunable are different cells, the fittest first.
      std::map<std::string, IndividualId> cells;
      for (const auto& [like, elite] : at_once.cells()) {
        BOOST_TEST((like.starts_with("family ") && like.find(", UNROLL ") != std::string::npos), like);
        cells[like] = elite.id;
      }
      BOOST_TEST(cells.size() > 2U);
      BOOST_TEST(at_once.cells().front().second.fitness >= at_once.cells().back().second.fitness);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_configuration_that_cannot_be_read_is_an_error) {
  search({}, 20);
  {
    SQLite::Database db((run / "run.db").string(), SQLite::OPEN_READWRITE);
    db.exec("UPDATE meta SET value = 'population: {strategy: new_one}' WHERE key = 'config'");
  }
  const Record damaged = record();
  BOOST_CHECK_THROW(PresentPopulation{damaged}, InputError);
}

BOOST_AUTO_TEST_SUITE_END()
