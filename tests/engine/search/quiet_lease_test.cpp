// SPDX-License-Identifier: Apache-2.0
#include "engine/search/worker_pool.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>
#include <vector>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(quiet_lease)

BOOST_AUTO_TEST_CASE(nothing_runs_beside_a_measurement_and_no_waiter_starves) {
  QuietLease lease(true);
  std::atomic<int> compiling{0}, measuring{0}, wrong{0}, done{0};
  constexpr int kEach = 200;
  for (int i = 0; i < kEach; ++i) {
    lease.expect_compile();
    lease.expect_measure();
  }
  std::vector<std::jthread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kEach / 2; ++i) {
        lease.begin_compile();
        ++compiling;
        wrong += measuring != 0;
        std::this_thread::yield();
        --compiling;
        ++done;
        lease.end_compile();
      }
    });
  threads.emplace_back([&] {
    for (int i = 0; i < kEach; ++i) {
      lease.begin_measure();
      ++measuring;
      wrong += compiling != 0;
      std::this_thread::yield();
      --measuring;
      ++done;
      lease.end_measure();
    }
  });
  threads.clear();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(done == 2 * kEach);
}

BOOST_AUTO_TEST_CASE(an_urgent_compilation_ends_a_batch_of_measurements) {
  QuietLease lease(true);
  for (int i = 0; i < 3; ++i) lease.expect_measure();
  lease.begin_measure();
  lease.expect_compile();
  lease.expect_compile(true);
  std::atomic<int> order{0}, compiled{0}, measured{0};
  std::jthread device([&] {
    lease.begin_measure();  // the second of the batch: after both compilations
    measured = ++order;
    lease.end_measure();
  });
  // One compiler, which has already taken the other job.
  std::jthread compiler([&] {
    lease.begin_compile();
    lease.end_compile();
    lease.begin_compile(true);
    compiled = ++order;
    lease.end_compile();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(order == 0);  // a measurement is running
  lease.end_measure();
  compiler.join();
  device.join();
  BOOST_TEST(compiled == 1);
  BOOST_TEST(measured == 2);
}

BOOST_AUTO_TEST_CASE(without_need_for_quiet_all_work_at_once) {
  QuietLease lease(false);
  lease.expect_compile();
  lease.expect_measure();
  lease.begin_measure();
  lease.begin_compile();  // would never return if it had to wait
  lease.end_compile();
  lease.end_measure();
  BOOST_TEST(true);
}

BOOST_AUTO_TEST_SUITE_END()
