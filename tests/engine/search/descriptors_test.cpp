// SPDX-License-Identifier: Apache-2.0
// What a measured variant is like: the compiler's numbers, and those of its plan.
#include "engine/search/evaluations.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "population/strategies/map_elites.hpp"
#include "support/settled.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const Task& softmax() {
  static const Task task = load_task(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax");
  return task;
}

const Workload& workload(const char* set) {
  return softmax().most_expensive(softmax().workloads(set)->workloads);
}

const std::string kTwoLaunches = R"(/*--- cultivar
name: softmax_two
task: softmax
target: cpu
requires: "dtype == f32"
workspace:
  kept: {bytes: "4 * R * C"}
launch:
  - kernel: first
    threads: 1
    args: [x, kept, R, C]
  - kernel: second
    threads: 1
    args: [kept, y, y, R, C]
---*/
extern "C" void first(const float*, float*, int, int) {}
extern "C" void second(const float*, float*, float*, int, int) {}
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(descriptors)

BOOST_AUTO_TEST_CASE(passes_over_memory_are_counted_from_what_the_launches_get) {
  const Facts facts = SimulatedEvaluator({}).devices()->front().facts;
  const Workload& w = workload("cpu_quick");
  const auto once = descriptors_of({{{"text_bytes", 640.0}}},
                                   make_variant(softmax_source("s"), softmax()).value(), softmax(), w, facts);
  BOOST_TEST(
      (once == std::map<std::string, double>{
                   {"text_bytes", 640.0}, {"launches", 1.0}, {"workspace_bytes", 0.0}, {"passes", 1.0}}));
  auto twice = descriptors_of({}, make_variant(kTwoLaunches, softmax()).value(), softmax(), w, facts);
  BOOST_TEST(twice["launches"] == 2.0);
  BOOST_TEST(twice["passes"] == 2.0);
  BOOST_TEST(twice["workspace_bytes"] > 0.0);
}

BOOST_AUTO_TEST_CASE(occupancy_follows_from_registers_shared_memory_and_blocks) {
  const KnownDevice* const h100 = known_device("h100");
  BOOST_REQUIRE(h100);
  const Variant seed =
      load_variant(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax/seeds/cuda_naive.cu", softmax());
  const auto with = [&](double registers, double shared) {
    return descriptors_of({{{"registers", registers}, {"shared_bytes", shared}}}, seed, softmax(),
                          workload("quick"), h100->facts);
  };
  auto light = with(32.0, 1024.0), heavy = with(128.0, 1024.0), wide = with(32.0, 100.0 * 1024.0);
  BOOST_TEST(light["occupancy"] == 100.0);
  BOOST_TEST(light["block_threads"] == 256.0);
  BOOST_TEST(heavy["occupancy"] == 25.0);
  BOOST_TEST(wide["occupancy"] == 25.0);  // two blocks of 8 warps
  BOOST_TEST(wide["block_shared_bytes"] == 100.0 * 1024.0);
}

BOOST_AUTO_TEST_CASE(shares_of_instructions_are_descriptors_and_axes) {
  const KnownDevice* const h100 = known_device("h100");
  BOOST_REQUIRE(h100);
  const Variant seed =
      load_variant(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax/seeds/cuda_naive.cu", softmax());
  PopulationOptions options{.strategy = StrategyKind::map_elites};
  options.axes = {"special_share", "tensor_share"};
  MapElites map(options);
  Archive archive;
  for (const double special : {0.0, 3.0, 12.0}) {
    const Resources resources{{{"registers", 32.0}}, {{"special_share", special}, {"tensor_share", 0.0}}};
    settle(map, archive,
           {.fitness = 1.0,
            .descriptors = descriptors_of(resources, seed, softmax(), workload("quick"), h100->facts)});
  }
  std::set<std::string> cells;
  for (const auto& [cell, elite] : map.cells()) cells.insert(cell);
  BOOST_TEST(
      (cells == std::set<std::string>{"special_share 0, tensor_share 0", "special_share 2^1, tensor_share 0",
                                      "special_share 2^3, tensor_share 0"}));
}

BOOST_AUTO_TEST_CASE(the_names_are_those_of_what_a_kernel_has) {
  const auto names = [](const std::map<std::string, double>& descriptors) {
    std::set<std::string> all;
    for (const auto& [name, value] : descriptors) all.insert(name);
    return all;
  };
  const auto listed = [](const char* target) {
    const auto all = descriptor_names(target_named(target));
    return std::set<std::string>(all.begin(), all.end());
  };
  const auto resources = [](const char* target) {
    Resources reported;
    for (const std::string& name : target_named(target)->reported) reported.values[name] = 1.0;
    return reported;
  };
  const Facts facts = SimulatedEvaluator({}).devices()->front().facts;
  BOOST_TEST((names(descriptors_of(resources("cpu"), make_variant(kTwoLaunches, softmax()).value(), softmax(),
                                   workload("cpu_quick"), facts)) == listed("cpu")));
  const Variant seed =
      load_variant(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax/seeds/cuda_naive.cu", softmax());
  BOOST_TEST((names(descriptors_of(resources("cuda"), seed, softmax(), workload("quick"),
                                   known_device("h100")->facts)) == listed("cuda")));
}

BOOST_AUTO_TEST_SUITE_END()
