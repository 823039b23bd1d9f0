// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/roofline.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

const Task& softmax() {
  static const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  return task;
}

Workload shape(double rows, double columns) {
  Workload w;
  w.name = "w";
  w.dtype = Dtype::f32;
  w.values = {{"R", rows}, {"C", columns}};
  return w;
}

const Ceilings kCeilings{100e9, 10e9, 80e9, 1e-6};
const Facts kFacts{{"num_cores", 2}, {"l2_bytes", 1 << 20}, {"l3_bytes", 32 << 20}};

}  // namespace

BOOST_AUTO_TEST_SUITE(roofline)

BOOST_AUTO_TEST_CASE(data_beyond_the_last_cache_moves_at_the_speed_of_memory) {
  const Workload w = shape(8192, 4096);  // 256 MiB in and out
  const Roofline floor = cultivar::roofline(softmax(), w, kCeilings, kFacts);
  BOOST_TEST(floor.bytes_seconds == softmax().bytes(w) / 10e9, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(floor.floor_seconds() == floor.bytes_seconds);
}

BOOST_AUTO_TEST_CASE(data_that_fits_the_cache_may_move_at_its_speed) {
  const Workload w = shape(1024, 1024);
  const Roofline floor = cultivar::roofline(softmax(), w, kCeilings, kFacts);
  BOOST_TEST(floor.bytes_seconds == softmax().bytes(w) / 80e9, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_timed_run_on_a_gpu_reads_from_memory_and_is_launched) {
  const Workload w = shape(1024, 1024);  // fits the cache; half of its bytes are read
  const double bytes = softmax().bytes(w);
  const Target gpu = target_named("cuda"), host = target_named("cpu");
  const auto close = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(timed_roofline(softmax(), w, kCeilings, kFacts, gpu).bytes_seconds == bytes / 2 / 10e9, close);
  BOOST_TEST(least_run_seconds(softmax(), w, kCeilings, kFacts, gpu) == bytes / 2 / 10e9 + 1e-6, close);
  BOOST_TEST(timed_roofline(softmax(), w, kCeilings, kFacts, host).bytes_seconds == bytes / 80e9, close);
  BOOST_TEST(least_run_seconds(softmax(), w, kCeilings, kFacts, host) == bytes / 80e9, close);
  BOOST_TEST(least_run_seconds(softmax(), w, {}, kFacts, gpu) == 0.0);
}

BOOST_AUTO_TEST_CASE(a_timed_run_on_the_host_moves_cold_data_as_fast_as_a_copy_of_its_size) {
  Ceilings ceilings = kCeilings;
  ceilings.cold = {{8 << 20, 20e9}, {32 << 20, 15e9}, {256 << 20, 10e9}};
  const Target gpu = target_named("cuda"), host = target_named("cpu");
  const auto close = boost::test_tools::tolerance(1e-12);
  // 2, 8, 16 and 32 MiB, which fit the cache, and 256 MiB, which do not.
  for (const auto& [rows, rate] :
       {std::pair{256.0, 20e9}, {1024.0, 20e9}, {2048.0, 20e9}, {4096.0, 15e9}, {32768.0, 10e9}}) {
    const Workload w = shape(rows, 1024);
    const double bytes = softmax().bytes(w);
    BOOST_TEST(timed_roofline(softmax(), w, ceilings, kFacts, host).bytes_seconds == bytes / rate, close);
    BOOST_TEST(least_run_seconds(softmax(), w, ceilings, kFacts, host) == bytes / rate, close);
    // What is impossible, and a GPU, know nothing of it.
    BOOST_TEST(cultivar::roofline(softmax(), w, ceilings, kFacts).bytes_seconds ==
                   cultivar::roofline(softmax(), w, kCeilings, kFacts).bytes_seconds,
               close);
    BOOST_TEST(timed_roofline(softmax(), w, ceilings, kFacts, gpu).bytes_seconds ==
                   timed_roofline(softmax(), w, kCeilings, kFacts, gpu).bytes_seconds,
               close);
  }
}

BOOST_AUTO_TEST_CASE(the_margin_alone_decides_what_is_impossible) {
  const Workload w = shape(8192, 4096);
  const Roofline floor = cultivar::roofline(softmax(), w, kCeilings, kFacts);
  BOOST_TEST(!impossibly_fast(floor, floor.floor_seconds()));
  BOOST_TEST(!impossibly_fast(floor, floor.floor_seconds() / 1.2));
  BOOST_TEST(impossibly_fast(floor, floor.floor_seconds() / 1.3));
  const std::string said = describe_impossible(softmax(), w, floor, floor.floor_seconds() / 2);
  BOOST_TEST(said.find("20 GB/s") != std::string::npos, said);
  BOOST_TEST(said.find("the highest rate measured on this device is 10 GB/s") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(what_no_memory_delivers_is_told_with_the_likely_reason) {
  Ceilings ceilings = kCeilings;
  ceilings.cold = {{8 << 20, 20e9}, {256 << 20, 10e9}};
  const Target host = target_named("cpu");
  const Workload w = shape(1024, 1024);  // 8 MiB, which fit the cache: not impossible for `roofline`
  const double bytes = softmax().bytes(w);
  BOOST_TEST(!beyond_memory(softmax(), w, ceilings, kFacts, host, bytes / 20e9));
  BOOST_TEST(!beyond_memory(softmax(), w, ceilings, kFacts, host, bytes / 24e9));
  const auto found = beyond_memory(softmax(), w, ceilings, kFacts, host, bytes / 60e9);
  BOOST_REQUIRE(found);
  BOOST_TEST(found->times() == 3.0, boost::test_tools::tolerance(1e-9));
  const std::string said = found->words();
  BOOST_TEST(said.starts_with("w: 60 GB/s is 3 times what this device's memory delivers (20 GB/s)"), said);
  BOOST_TEST(said.find("does not read all of its input") != std::string::npos, said);
  BOOST_TEST(said.find("cost.bytes") != std::string::npos, said);
  BOOST_TEST(!beyond_memory(softmax(), w, Ceilings{}, kFacts, host, 1e-9));

  Evaluation evaluation;
  evaluation.workloads.resize(2);
  evaluation.workloads[0].workload = "another";
  evaluation.workloads[1].workload = "w";
  evaluation.workloads[1].median_us = 1e6 * bytes / 60e9;
  BOOST_TEST(beyond_memory(softmax(), std::vector{w}, evaluation, ceilings, kFacts, host).size() == 1u);
}

BOOST_AUTO_TEST_CASE(no_share_of_a_peak_is_above_it) {
  BOOST_TEST(share_in_words(0.754) == "75 %");
  BOOST_TEST(share_in_words(1.5) == "over 100 %");
}

BOOST_AUTO_TEST_CASE(unknown_ceilings_forbid_nothing) {
  const Roofline floor = cultivar::roofline(softmax(), shape(8192, 4096), Ceilings{}, kFacts);
  BOOST_TEST(!impossibly_fast(floor, 1e-9));
}

BOOST_AUTO_TEST_CASE(what_is_not_known_is_no_reason_but_outputs_take_time) {
  Task task = softmax();
  task.cost = {std::nullopt, std::nullopt, Cost::Report::time};
  const Workload w = shape(8192, 4096);  // 128 MiB of output
  const Roofline floor = cultivar::roofline(task, w, kCeilings, kFacts);
  BOOST_TEST(floor.flops_seconds == 0.0);
  BOOST_TEST(floor.bytes_seconds == 8192.0 * 4096 * 4 / 10e9, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
