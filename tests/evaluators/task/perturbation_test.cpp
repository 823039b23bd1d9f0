// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/mixture.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

using namespace cultivar;

namespace {

std::vector<double> perturbed(const Task& task, Dtype dtype, const std::vector<double>& values,
                              std::uint64_t seed) {
  Workload workload;
  workload.dtype = dtype;
  workload.values = {{"R", 1}, {"C", static_cast<double>(values.size())}};
  std::vector<std::vector<std::byte>> inputs{std::vector<std::byte>(values.size() * size_of(dtype))};
  encode(dtype, values, inputs[0]);
  perturb_values(task, workload, seed, inputs);
  std::vector<double> changed(values.size());
  decode(dtype, inputs[0], changed);
  return changed;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(perturbation)

BOOST_AUTO_TEST_CASE(values_change_by_little_and_equal_ones_alike) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{1, 1.5, 0, 1, -300, 1.5, inf, -1, 1e-3, 1e4};
  for (const auto& [dtype, most] :
       {std::pair{Dtype::f32, 0.001}, {Dtype::bf16, 0.008}, {Dtype::f16, 0.001}}) {
    std::vector<double> stored(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) stored[i] = round_to(dtype, values[i]);
    int changes = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto changed = perturbed(task, dtype, values, seed);
      BOOST_TEST((changed[0] == changed[3] && changed[1] == changed[5]));
      BOOST_TEST((changed[2] == 0.0 && changed[6] == inf));
      for (const std::size_t i : {0u, 1u, 4u, 7u, 8u, 9u}) {
        BOOST_TEST(std::abs(changed[i] / stored[i] - 1) <= most, name_of(dtype) << ": " << stored[i]);
        changes += changed[i] != stored[i];
      }
    }
    BOOST_TEST(changes > 30, name_of(dtype) << ": " << changes);
  }
}

BOOST_AUTO_TEST_CASE(each_seed_gives_other_values_and_the_same_seed_the_same) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  const std::vector<double> values{1, 2, 3};
  BOOST_TEST(perturbed(task, Dtype::f32, values, 7) == perturbed(task, Dtype::f32, values, 7));
  BOOST_TEST(perturbed(task, Dtype::f32, values, 7) != perturbed(task, Dtype::f32, values, 8));
}

BOOST_AUTO_TEST_SUITE_END()
