// SPDX-License-Identifier: Apache-2.0
// Kernels in Triton become machine code that needs no Triton, without a GPU; what may not run is refused.
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/device.hpp"
#include "support/contains.hpp"
#include "support/triton_kernels.hpp"

using namespace cultivar;
using namespace cultivar::triton_test;
using cultivar::testing::contains;

namespace {

struct Shape {
  std::string task, seed;
  std::map<std::string, double> values;
};

// What the card would get: the launches of the plan as the compiler completed them are those of the code.
void require_launchable(const Variant& variant, const Binary& binary, const Shape& shape, Dtype dtype) {
  Workload workload;
  workload.name = "test";
  workload.dtype = dtype;
  workload.values = {shape.values.begin(), shape.values.end()};
  const Facts& facts = known_device("h100")->facts;
  const auto plan = make_plan(variant, task_named(shape.task), workload, facts);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  const auto legal = check_launches(cubin_of(binary), with_choices(*plan, binary.chosen), facts);
  BOOST_TEST(legal.has_value(), (legal ? "" : legal.error().message));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(triton_compiler, *needs_triton())

BOOST_AUTO_TEST_CASE(each_seed_becomes_machine_code_in_each_dtype_and_passes_the_screen) {
  const std::vector<Shape> shapes = {{"softmax", "triton_rows", {{"R", 64}, {"C", 512}}},
                                     {"softmax", "triton_rows", {{"R", 64}, {"C", 50001}}},
                                     {"rmsnorm", "triton_rows", {{"R", 64}, {"C", 512}, {"eps", 1e-6}}},
                                     {"rmsnorm", "triton_rows", {{"R", 64}, {"C", 50001}, {"eps", 1e-6}}},
                                     {"matmul", "triton_tiles", {{"M", 256}, {"N", 512}, {"K", 256}}},
                                     {"matmul", "triton_tiles", {{"M", 127}, {"N", 65}, {"K", 33}}}};
  for (const Shape& shape : shapes)
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      Configuration configuration;
      if (shape.task == "matmul" && dtype == Dtype::f32) configuration["TILE_K"] = std::int64_t{32};
      const Variant variant = seed(shape.task, shape.seed, configuration);
      const auto binary =
          compiler_for(shape.task).compile(variant, macros_for(variant, shape.values, dtype), 300.0);
      BOOST_REQUIRE_MESSAGE(binary,
                            (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
      BOOST_TEST(binary->resources.values.at("registers") > 0.0);
      require_launchable(variant, *binary, shape, dtype);
    }
}

BOOST_AUTO_TEST_SUITE_END()
