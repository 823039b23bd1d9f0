// SPDX-License-Identifier: Apache-2.0
// Constraints evaluated per combination of tunables give the same result as full evaluation.
#include "operators/feasibility.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <iterator>

#include "evaluators/judge/stages.hpp"

using namespace cultivar;

namespace {

// A constraint of the tunables alone, one through a let, one with the workload and a device fact in it, and a
// let that no constraint needs and that has no value at C = 0.
constexpr const char* kSource = R"(/*--- cultivar
name: constrained
task: softmax
target: cpu
requires: "dtype == f32 && C >= 128"
tunables:
  A: {values: [1, 2, 4, 8, 3000], default: 1}
  B: {values: [1, 2, 4, 8], default: 1}
  C2: {values: [0, 1, 2], default: 1}
  L: {values: [x, y], default: x}
constraints: ["A * B <= 12000", "twice % 3 != 2 || L == L_y", "A <= C / num_cores"]
let:
  twice: "2 * B + C2"
  share: "8 / C2"
launch:
  - kernel: softmax
    threads: 1
    args: [x, y, R, C]
---*/
extern "C" void softmax(const float*, float*, int, int) {}
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(feasibility)

BOOST_AUTO_TEST_CASE(an_answer_by_value_indices_is_the_answer_of_the_constraints_at_first_and_again) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  auto workloads = task.workloads("cpu_quick")->workloads;
  const Facts facts{{"num_cores", 4.0}};
  Variant variant = make_variant(kSource, task).value();
  const Feasibility feasible(variant, task, workloads, facts);
  std::ranges::copy(every_claimed_shape(task, variant), std::back_inserter(workloads));
  const auto& tunables = feasible.tunables();
  int yes = 0, no = 0;
  for (int round = 0; round < 2; ++round)
    for (int a = 0; a < 5; ++a)
      for (int b = 0; b < 4; ++b)
        for (int c = 0; c < 3; ++c)
          for (int l = 0; l < 2; ++l) {
            const int point[] = {a, b, c, l};
            for (std::size_t t = 0; t < 4; ++t)
              variant.configuration[tunables[t].name] =
                  tunables[t].values[static_cast<std::size_t>(point[t])];
            bool expected = true;
            for (const Workload& workload : workloads)
              expected = expected && check_constraints(variant, task, workload, facts).has_value();
            BOOST_TEST(feasible.at(point) == expected, to_string(tunables, variant.configuration));
            BOOST_TEST(feasible(variant.configuration) == expected);
            if (c == 0) BOOST_TEST(!expected);
            ++(expected ? yes : no);
          }
  BOOST_TEST(yes > 20);
  BOOST_TEST(no > 100);
}

// The search uses heads of 128; a setting that fits those but not the heads of 256 in `holdout` could never
// be promoted.
BOOST_AUTO_TEST_CASE(shapes_that_a_search_does_not_time_constrain_it_too) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/attention_forward");
  const Variant seed = load_variant(task.folder / "seeds" / "cuda_wgmma.cu", task);
  const Facts facts{{"num_sms", 132.0},         {"smem_max", 232448.0},  {"l2_bytes", 52428800.0},
                    {"registers_max", 65536.0}, {"threads_max", 2048.0}, {"compute_capability", 90.0}};
  const auto& workloads = task.workloads("avo_mha")->workloads;
  const Feasibility feasible(seed, task, workloads, facts);
  Configuration configuration = seed.configuration;
  BOOST_TEST(feasible(configuration));
  configuration["BLOCK_N_WIDE"] = std::int64_t{64};
  configuration["STAGES"] = std::int64_t{3};
  Variant variant = seed;
  variant.configuration = configuration;
  for (const Workload& workload : workloads)
    BOOST_TEST(check_constraints(variant, task, workload, facts).has_value());
  BOOST_TEST(!feasible(configuration));
}

BOOST_AUTO_TEST_SUITE_END()
