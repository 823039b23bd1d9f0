// SPDX-License-Identifier: Apache-2.0
// Workloads that can never be evaluated are found before anything is allocated.
#include "evaluators/judge/memory_need.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/devices/device.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

constexpr double kGiB = 1 << 30;

const Task& softmax() {
  static const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  return task;
}

Workload shape(double rows, double columns) {
  Workload w;
  w.name = "the_large_one";
  w.dtype = Dtype::f32;
  w.values = {{"R", rows}, {"C", columns}};
  return w;
}

MemoryAllowed allowed(double bytes, std::optional<std::size_t> file = {}) {
  return {.memory = {bytes, "the limit of a test"}, .file_bytes = file};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_need)

BOOST_AUTO_TEST_CASE(a_check_holds_copies_and_exact_values) {
  const Workload w = shape(65536, 65536);  // two tensors of 16 GiB
  const MemoryNeed host = cultivar::memory_need(softmax(), w, target_named("cpu"));
  BOOST_TEST(host.tensors == 32 * kGiB);
  BOOST_TEST(host.worker == (16 + 32 + 16 + 32) * kGiB);
  BOOST_TEST(host.largest_shared == 16 * kGiB);
  const MemoryNeed gpu = cultivar::memory_need(softmax(), w, target_named("cuda"));
  BOOST_TEST(gpu.worker == (16 + 32 + 16) * kGiB);
  BOOST_TEST(gpu.largest_shared == 0.0);
}

BOOST_AUTO_TEST_CASE(the_workload_its_bytes_and_the_limit_are_named) {
  const std::vector<Workload> all{shape(64, 64), shape(65536, 65536)};
  const auto why = beyond_memory(softmax(), all, target_named("cpu"), allowed(23.6 * kGiB));
  BOOST_REQUIRE(why);
  for (const char* said :
       {"the_large_one", "at least 96.0 GiB", "32.0 GiB for its tensors", "the limit of a test"})
    BOOST_TEST(contains(*why, said), *why);
  BOOST_TEST(!beyond_memory(softmax(), all, target_named("cpu"), allowed(100 * kGiB)));
  BOOST_TEST(!beyond_memory(softmax(), {}, target_named("cpu"), allowed(0.0)));
}

BOOST_AUTO_TEST_CASE(memory_that_is_shared_is_a_file_for_the_shell) {
  const std::vector<Workload> all{shape(4096, 4096)};  // tensors of 64 MiB
  const auto why = beyond_memory(softmax(), all, target_named("cpu"), allowed(100 * kGiB, 10 << 20));
  BOOST_REQUIRE(why);
  BOOST_TEST(contains(*why, "64 MiB"), *why);
  BOOST_TEST(contains(*why, "10 MiB (ulimit -f)"), *why);
  BOOST_TEST(!beyond_memory(softmax(), all, target_named("cuda"), allowed(100 * kGiB, 10 << 20)));
}

BOOST_AUTO_TEST_SUITE_END()
