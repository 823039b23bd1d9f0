// SPDX-License-Identifier: Apache-2.0
// What a bundle's C++ takes over from a task: names and expressions that were checked, and words.
#include "evaluators/launchers/launcher_parts.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "evaluators/judge/extents.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/index_inputs.hpp"
#include "support/contains.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(launcher_parts)

BOOST_AUTO_TEST_CASE(words_of_a_task_stay_in_their_comment) {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  task.dimensions.front().about = "rows\n#include </etc/passwd>\n\x1b[2J\xff";
  task.dimensions.back().about = "columns \\";
  auto variant = make_variant(softmax_source("words"), task);
  BOOST_REQUIRE(variant);
  const std::vector<Workload> workloads = task.workload_sets.front().workloads;
  const Facts facts;
  const LauncherInput input{task, *variant, facts, workloads};
  std::istringstream lines(argument_members(input));
  int comments = 0;
  for (std::string line; std::getline(lines, line);) {
    BOOST_TEST(line.starts_with("  "), line);
    BOOST_TEST(contains(line, ";  // "), line);
    BOOST_TEST(!line.ends_with("\\"), line);
    BOOST_TEST(line.find_first_of("\x1b\xff") == std::string::npos, line);
    ++comments;
  }
  BOOST_TEST(comments ==
             static_cast<int>(task.dimensions.size() + task.parameters.size() + task.tensors.size()));
}

BOOST_AUTO_TEST_CASE(a_launch_stays_under_its_conditions) {
  KernelLaunch launch;
  BOOST_TEST(as_often_as_said(launch, "    go();\n").value() == "    go();\n");
  launch.repeat = Expression::parse("R / 2").value();
  const std::string repeated = as_often_as_said(launch, "    go();\n").value();
  BOOST_TEST(contains(repeated, "for (double " + variable("step") + " = 0.0"), repeated);
  BOOST_TEST(contains(repeated, variable("R")), repeated);
  launch.when = Expression::parse("R > 1").value();
  const std::string conditional = as_often_as_said(launch, "    go();\n").value();
  BOOST_TEST(conditional.starts_with("    if ("), conditional);
  BOOST_TEST(contains(conditional, "for (double"), conditional);
}

BOOST_AUTO_TEST_CASE(the_plan_of_an_export_has_each_launch_once) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  const Variant variant =
      load_variant(std::string(CULTIVAR_SOURCE_DIR) + "/tests/kernels/format/repeats_its_kernel.cpp", task);
  const std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  const Facts facts{{"num_cores", 2}};
  const LauncherInput input{task, variant, facts, workloads};
  BOOST_TEST(make_plan(variant, task, workloads.front(), facts).value().kernels.size() == 4U);
  const Plan plan = plan_of_each_launch(input).value();
  BOOST_TEST(plan.kernels.size() == 2U);
  BOOST_TEST(plan.kernels.back().kernel == "softmax_of_all");

  // Where a launch does not run, its numbers need not be valid.
  Variant never = variant;
  KernelLaunch& last = never.manifest.launch.back();
  last.when = Expression::parse("R < 0").value();
  BOOST_TEST_REQUIRE(!last.keys.empty());
  for (auto& [key, values] : last.keys) std::ranges::fill(values, Expression::parse("0 - R").value());
  BOOST_TEST(plan_of_each_launch({task, never, facts, workloads}).value().kernels.size() == 2U);
  last.when.reset();
  BOOST_TEST(!plan_of_each_launch({task, never, facts, workloads}));
}

BOOST_AUTO_TEST_CASE(parameters_have_the_values_that_checks_give_them) {
  const Task attention = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/attention_forward");
  const auto checked = checked_parameters(attention);
  BOOST_TEST((checked.at("scale") == std::pair(-4.0, 4.0)));
  BOOST_TEST((checked.at("window") == std::pair(1.0, 2147483647.0)));  // drawn as an amount, and as all keys
  BOOST_TEST((checked.at("softcap") == std::pair(1.0, 50.0)));
  BOOST_TEST(!checked.contains("causal"));
  Task without = attention;
  for (Parameter& parameter : without.parameters) parameter.range.reset();
  const auto near = checked_parameters(without).at("scale");  // half and twice what is listed
  BOOST_TEST(near.first > 0.0);
  BOOST_TEST(near.second < 4.0);

  const Variant variant = load_variant(attention.folder / "seeds/vectorised.cpp", attention);
  const Facts facts;
  const std::vector<Workload> workloads = attention.workloads("cpu_quick")->workloads;
  LauncherInput input{attention, variant, facts, workloads};
  input.checked = checked;
  BOOST_TEST(words_of_parameters(input) ==
             "causal 0 or 1; scale from -4 to 4, or 1 / sqrt(D); window from 1 to 2147483647, or 0; softcap "
             "from 1 to 50, or 0");
}

BOOST_AUTO_TEST_CASE(inputs_of_whole_numbers_have_the_values_that_checks_give_them) {
  const auto values = [](const char* name) {
    const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/" + name);
    std::string text;
    for (const auto& [tensor, words] : values_of_whole_inputs(task)) {
      BOOST_TEST(is_index(task, *task.tensor(tensor)));
      text += tensor + ": " + words + "\n";
    }
    return text;
  };
  BOOST_TEST(values("softmax").empty());
  BOOST_TEST(values("rope") == "positions: from 0 to P - 1\n");
  BOOST_TEST(values("cross_entropy") == "targets: from 0 to V - 1, or ignore_index\n");
  BOOST_TEST(values("attention_paged") ==
             "page_table: from 0 to N - 1\nlengths: from 1 to M * PAGE\n");  // pages may be shared
}

BOOST_AUTO_TEST_SUITE_END()
