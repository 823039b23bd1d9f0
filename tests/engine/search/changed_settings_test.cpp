// SPDX-License-Identifier: Apache-2.0
#include "engine/search/beginning.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(changed_settings)

BOOST_AUTO_TEST_CASE(what_belongs_to_the_machine_or_the_budget_may_change) {
  require_changeable({});
  require_changeable({"budget.wall=2h", "gate.max_device_seconds=60", "notify={}", "evaluation.depth=1",
                      "evaluation.launcher.measure=[srun]", "evaluation.python=/opt/venv/bin/python3"});
}

BOOST_AUTO_TEST_CASE(what_was_decided_with_may_not) {
  for (const char* text : {"seeds=[a.cu]", "evaluation.max_samples=9", "evaluation=1", "budgets.wall=2h",
                           "evaluation.depths=1", "operators.tune=2", "evaluation.cores=4"})
    BOOST_CHECK_EXCEPTION(require_changeable({"budget.wall=2h", text}), InputError, [&](const InputError& e) {
      return std::string(e.what()).starts_with(std::string("--set ") + text + ": ");
    });
}

BOOST_AUTO_TEST_CASE(the_record_says_which_settings_of_the_evaluation_are_others) {
  BOOST_TEST(::cultivar::changed_settings({"budget.wall=2h"}).empty());
  BOOST_TEST(::cultivar::changed_settings({"evaluation.depth=1", "budget.wall=2h", "evaluation.devices=[1]"})
                 .starts_with(" with other settings: evaluation.depth=1, evaluation.devices=[1]. "));
  BOOST_TEST(::cultivar::changed_settings({"evaluation.python=python3.12", "evaluation.patience=2h"}) ==
             " with other settings: evaluation.python=python3.12, evaluation.patience=2h");
}

BOOST_AUTO_TEST_SUITE_END()
