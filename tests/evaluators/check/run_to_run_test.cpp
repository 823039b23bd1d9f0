// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/compare.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

// The outputs dx and dw of a small rmsnorm_backward: dx may not differ between runs, dw by half of the
// permitted error.
struct Bed {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/rmsnorm_backward");
  Workload workload;
  std::vector<std::vector<std::byte>> first, second;

  Bed() {
    workload.name = "w";
    workload.dtype = Dtype::f32;
    workload.values = {{"R", 2}, {"C", 4}};
    first = {encoded({1, 2, 3, 4, 5, 6, 7, 8}), encoded({1, -2, 3, 4})};
    second = first;
  }
  static std::vector<std::byte> encoded(const std::vector<double>& values) {
    std::vector<std::byte> bytes(4 * values.size());
    encode(Dtype::f32, values, bytes);
    return bytes;
  }
  std::string differences(double legal) const {
    return run_to_run_differences(task, RowLayout(task, workload), first, second, [&] {
      return std::vector<LegalError>{{0, 0}, {legal, legal}};
    });
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(run_to_run)

BOOST_AUTO_TEST_CASE(equal_bits_do_not_differ) {
  BOOST_TEST(Bed().differences(0) == "");
}

BOOST_AUTO_TEST_CASE(an_output_without_a_share_may_not_differ_in_one_bit) {
  Bed bed;
  bed.second[0][20] ^= std::byte{1};
  BOOST_TEST(bed.differences(1) == "the first element that differs is dx[R=1, C=1]\n");
}

BOOST_AUTO_TEST_CASE(an_output_with_a_share_may_differ_by_it_and_a_last_place) {
  Bed bed;
  bed.second[1] = Bed::encoded({1, -2, 3, 4.01});
  BOOST_TEST(bed.differences(0.02) == "");  // half of twice 0.02
  const std::string said = bed.differences(0.009);
  BOOST_TEST(said.find("dw[C=3] differs by 0.01") != std::string::npos, said);
  bed.second[1] = Bed::encoded({1, -2, 3, 4.0000002});
  BOOST_TEST(bed.differences(0) == "");
  bed.second[1] = Bed::encoded({1, -2, std::nan(""), 4});
  BOOST_TEST(bed.differences(100).find("dw[C=2]") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
