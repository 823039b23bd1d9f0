// SPDX-License-Identifier: Apache-2.0
// In the cpu seeds of tasks on rows, a NaN or an infinity reaches the outputs that it reaches in the oracle.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "evaluators/check/oracle.hpp"
#include "support/cpu_kernels.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::words;
namespace fs = std::filesystem;

namespace {

const fs::path kTasks = cpu_test::source_folder / "configs/tasks";

// Every row but each fifth has one such value, each in another column.
Inputs planted(const Task& task, const Workload& workload, std::size_t columns) {
  Inputs inputs;
  inputs.bytes = make_inputs(nullptr, task, workload, 1).bytes;
  auto x = cpu_test::values<float>(inputs.bytes[0]);
  constexpr float values[] = {NAN, -NAN, INFINITY, -INFINITY};
  for (std::size_t row = 0; row * columns < x.size(); ++row)
    if (row % 5 < 4) x[row * columns + row * 7 % columns] = values[row % 5];
  const std::uint32_t of_a_gpu = 0x7fffffff;  // the NaN that CUDA's arithmetic gives
  std::memcpy(&x[0], &of_a_gpu, sizeof(float));
  inputs.bytes[0] = cpu_test::bytes(x);
  decode_inputs(task, workload, inputs);
  return inputs;
}

// The elements that are finite only in the kernel's outputs, or only in the oracle's.
int differing(const Task& task, const Variant& variant, const std::string& dimension, int columns) {
  Workload workload = task.smoke.front();
  workload.dtype = Dtype::f32;
  workload.values[dimension] = columns;
  const Inputs inputs = planted(task, workload, static_cast<std::size_t>(columns));

  const auto plan = make_plan(variant, task, workload, cpu_test::device().facts());
  BOOST_REQUIRE_MESSAGE(plan, words(plan));
  const auto binary = cpu_test::compiler().compile(variant, macros(variant, task, workload), 60.0);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().diagnostics));
  auto session = cpu_test::device().open(*binary, *plan, 20.0);
  BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
  const RowLayout layout(task, workload);
  std::vector<std::vector<std::byte>> outputs(layout.outputs().size());
  BOOST_REQUIRE((*session)->run(inputs.bytes, outputs, {}));

  const auto library = open_reference(task, cpu_test::cache_folder);
  BOOST_REQUIRE_MESSAGE(library, words(library));
  const Oracle oracle(*library, task, workload, 1);
  int result = 0;
  for (std::int64_t row = 0; row < layout.rows(); ++row) {
    const std::vector<double> right = oracle.rows(library->exact(), inputs.view(), std::vector{row});
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const OutputLayout& output = layout.outputs()[o];
      const auto values = cpu_test::values<float>(outputs[o]);
      for (std::size_t e = 0; e < output.element_offsets.size(); ++e) {
        const auto at = static_cast<std::size_t>(layout.base(output, row) + output.element_offsets[e]);
        result += std::isfinite(values[at]) != std::isfinite(right[output.first_element + e]) ? 1 : 0;
      }
    }
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(not_finite_rows)

BOOST_AUTO_TEST_CASE(seeds_give_what_the_oracle_gives) {
  const std::pair<const char*, const char*> tasks[] = {
      {"softmax", "C"}, {"cross_entropy", "V"}, {"layernorm", "C"}, {"rmsnorm", "C"}};
  for (const auto& [name, dimension] : tasks) {
    const Task task = load_task(kTasks / name);
    for (const auto& entry : fs::directory_iterator(kTasks / name / "seeds"))
      if (entry.path().extension() == ".cpp")
        BOOST_TEST(differing(task, load_variant(entry.path(), task), dimension, 101) == 0, entry.path());
  }
}

BOOST_AUTO_TEST_CASE(vectors_of_softmax_lose_none_whatever_their_number) {
  const Task task = load_task(kTasks / "softmax");
  for (const char* pass : {"keep", "again"})
    for (const std::int64_t vectors : {1, 4})
      BOOST_TEST(differing(task,
                           load_variant(kTasks / "softmax/seeds/vectorised.cpp", task,
                                        {{"VECTORS", vectors}, {"SECOND_PASS", std::string(pass)}}),
                           "C", 101) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
