// SPDX-License-Identifier: Apache-2.0
// An honest kernel is not refused for what its manifest decides by (judge/outcomes.hpp).
// long: 60 s, evaluators/judge, evaluators/expression, configs/tasks
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/outcomes.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(outcomes_of_seeds)

BOOST_AUTO_TEST_CASE(every_outcome_that_a_seed_claims_can_be_checked) {
  namespace fs = std::filesystem;
  const fs::path tasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";
  int decided = 0;
  for (const auto& folder : fs::directory_iterator(tasks)) {
    if (!fs::exists(folder.path() / "task.yaml")) continue;
    const Task task = load_task(folder.path());
    for (const auto& file : fs::directory_iterator(folder.path() / "seeds")) {
      if (file.path().extension() == ".md") continue;
      const Variant variant = load_variant(file.path(), task);
      const Facts facts = variant.manifest.target->stand_in_facts(4);
      const std::vector<Workload> shapes = every_claimed_shape(task, variant);
      std::vector<Outcome> unreached = outcomes_beyond(variant, task, facts, shapes);
      decided += outcomes_of(variant).empty() ? 0 : 1;
      const auto legal = [&](const Place& place) { return is_legal(variant, task, place.shape, facts); };
      draw_outcomes(task, variant, facts, shapes, unreached, 1, legal);
      if (const auto beyond = claimed_beyond(task, variant, facts, shapes, unreached, 1, legal))
        BOOST_ERROR(file.path().string()
                    << ": " << beyond->outcome.condition.text() << " on " << beyond->shape.name);
    }
  }
  BOOST_TEST(decided > 5);
}

BOOST_AUTO_TEST_SUITE_END()
