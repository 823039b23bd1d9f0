// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "evaluators/timing/input_pool.hpp"

using namespace cultivar;

namespace {

const Task& softmax() {
  static const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  return task;
}
const TensorSpec& x() {
  return *softmax().tensor("x");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stretches)

BOOST_AUTO_TEST_CASE(one_stretch_serves_all_that_ask_for_no_more_than_it_has) {
  Stretches stretches(7);
  const auto one = stretches.get(x(), Dtype::bf16, 200'000);
  BOOST_TEST(stretches.get(x(), Dtype::bf16, 100'000).get() == one.get());
  BOOST_TEST(stretches.get(x(), Dtype::f32, 100'000).get() != one.get());
  BOOST_TEST(one->bytes.size() == 400'000U);
  std::vector<double> decoded(200'000);
  decode(Dtype::bf16, one->bytes, decoded);
  BOOST_TEST(std::equal(decoded.begin(), decoded.end(), one->values.begin(), one->values.end()));
}

BOOST_AUTO_TEST_CASE(contents_in_use_never_change_under_their_number) {
  Stretches stretches(7);
  const auto held = stretches.get(x(), Dtype::f32, 5000);
  const auto before = held->bytes;
  const std::uint64_t id = held->id;
  const auto longer = stretches.get(x(), Dtype::f32, 9000);
  const auto other = stretches.another(x(), Dtype::f32, 5000);
  stretches.renew(8);
  const auto renewed = stretches.get(x(), Dtype::f32, 5000);
  BOOST_TEST((held->bytes == before));
  BOOST_TEST(held->id == id);
  BOOST_TEST((longer->id != id && other->id != longer->id && renewed->id != other->id));
  BOOST_TEST((other->bytes != longer->bytes && renewed->bytes != other->bytes));
}

BOOST_AUTO_TEST_CASE(the_same_seed_draws_the_same_numbers_again) {
  Stretches one(3), other(4);
  const auto first = one.get(x(), Dtype::f32, 5000);
  other.renew(3);
  BOOST_TEST((other.get(x(), Dtype::f32, 5000)->bytes == first->bytes));
}

BOOST_AUTO_TEST_CASE(the_inputs_of_pools_that_share_are_windows_of_the_same_stretch) {
  const auto stretches = std::make_shared<Stretches>(1);
  Workload workload;
  workload.dtype = Dtype::f32;
  workload.values = {{"R", 64}, {"C", 256}};
  InputPool a(softmax(), workload, 5, stretches), b(softmax(), workload, 6, stretches);
  BOOST_TEST(a.inputs()[0].stretch == b.inputs()[0].stretch);
  BOOST_TEST(a.inputs()[0].bytes.size() == 64U * 256U * 4U);
  BOOST_TEST(a.inputs()[0].bytes.data() != b.inputs()[0].bytes.data());
  BOOST_TEST(a.inputs()[0].bytes.data() >= a.inputs()[0].whole.data());
}

BOOST_AUTO_TEST_SUITE_END()
