// SPDX-License-Identifier: Apache-2.0
// Jobs at a station: their order, and workers that cannot be had.
#include "engine/search/worker_pool.hpp"

#include <boost/test/unit_test.hpp>
#include <future>

using namespace cultivar;

namespace {

JobPtr job(IndividualId id) {
  return std::make_shared<Job>(Evaluate{}, id);
}

struct Finished {
  std::mutex mutex;
  std::vector<JobPtr> jobs;
  WorkerPool::Done done() {
    return [this](const JobPtr& one) {
      const std::lock_guard lock(mutex);
      jobs.push_back(one);
    };
  }
  std::vector<IndividualId> ids() const {
    std::vector<IndividualId> all;
    for (const JobPtr& one : jobs) all.push_back(one->id);
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(worker_pool)

BOOST_AUTO_TEST_CASE(urgent_jobs_go_first_and_the_destructor_waits_for_all) {
  Finished finished;
  {
    std::promise<void> open;
    const auto gate = open.get_future().share();
    WorkerPool pool(1, false, [gate](Job& one, int) {
      if (one.id == 1) gate.wait();
    });
    for (const IndividualId id : {1, 2, 3}) pool.push(job(id), Priority::usual, finished.done());
    pool.push(job(4), Priority::urgent, finished.done());
    open.set_value();
  }
  BOOST_REQUIRE(finished.jobs.size() == 4U);
  BOOST_TEST(finished.ids().back() == 3);
  // The urgent one came before those that waited; the first may have begun before or after it.
  BOOST_TEST((finished.ids()[0] == 4 || finished.ids()[1] == 4));
}

BOOST_AUTO_TEST_CASE(awaited_jobs_go_after_urgent_ones_in_their_order_and_before_usual_ones) {
  Finished finished;
  {
    std::promise<void> begun, open;
    const auto gate = open.get_future().share();
    WorkerPool pool(1, false, [&](Job& one, int) {
      if (one.id != 1) return;
      begun.set_value();
      gate.wait();
    });
    pool.push(job(1), Priority::usual, finished.done());
    begun.get_future().wait();
    pool.push(job(2), Priority::usual, finished.done());
    pool.push(job(3), Priority::awaited, finished.done());
    pool.push(job(4), Priority::urgent, finished.done());
    pool.push(job(5), Priority::awaited, finished.done());
    open.set_value();
  }
  const std::vector<IndividualId> expected = {1, 4, 3, 5, 2}, ids = finished.ids();
  BOOST_TEST(ids == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(workers_work_side_by_side) {
  Finished finished;
  {
    std::promise<void> first, second;
    const auto one_begun = first.get_future().share(), two_begun = second.get_future().share();
    WorkerPool pool(2, false, [&](Job& each, int) {  // each waits for the other
      (each.id == 1 ? first : second).set_value();
      (each.id == 1 ? two_begun : one_begun).wait();
    });
    pool.push(job(1), Priority::usual, finished.done());
    pool.push(job(2), Priority::usual, finished.done());
  }
  BOOST_TEST(finished.jobs.size() == 2U);
}

// As TBB's arenas did once in about a hundred times.
BOOST_AUTO_TEST_CASE(blocked_workers_of_one_pool_never_keep_those_of_another_from_starting) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::promise<void> end, begun;
    const auto ended = end.get_future().share();
    Finished finished;
    WorkerPool blocked(8, false, [&](Job&, int) { ended.wait(); });
    WorkerPool device(1, true, [&](Job&, int) { begun.set_value(); });
    for (IndividualId id = 1; id <= 1 + repeat % 3; ++id)
      blocked.push(job(id), Priority::usual, finished.done());
    device.push(job(9), Priority::usual, finished.done());
    const bool in_time = begun.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    end.set_value();
    BOOST_REQUIRE(in_time);
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_cannot_be_had_hands_over_and_is_left_out) {
  Finished finished;
  {
    WorkerPool pool(2, true, [](Job& each, int worker) {
      if (worker == 0) each.trouble = Error{ErrorKind::failed, "", "it does not answer"};
    });
    for (IndividualId id = 1; id <= 20; ++id) pool.push(job(id), Priority::usual, finished.done());
  }
  BOOST_TEST(finished.jobs.size() == 20U);
  std::size_t handed_over = 0;
  for (const JobPtr& each : finished.jobs) {
    BOOST_TEST(!each->trouble);
    handed_over += each->device_troubles.size();
  }
  BOOST_TEST(handed_over <= 2U);
}

BOOST_AUTO_TEST_CASE(the_last_device_keeps_its_trouble_and_an_exception_is_trouble_too) {
  Finished finished;
  {
    WorkerPool pool(1, true, [](Job&, int) { throw std::runtime_error("gone"); });
    pool.push(job(1), Priority::usual, finished.done());
  }
  BOOST_REQUIRE(finished.jobs.size() == 1U);
  BOOST_TEST(finished.jobs[0]->trouble.value().message == "gone");
}

// As while a scheduler lets one wait and starts none of the others.
BOOST_AUTO_TEST_CASE(jobs_go_to_workers_that_run_while_others_are_being_started) {
  Finished finished;
  std::promise<void> granted;
  const auto allocation = granted.get_future().share();
  {
    WorkerPool pool(
        2, true, [](Job& each, int worker) { each.seconds = worker; },
        [&](int worker) -> Expected<void> {
          if (worker == 0) allocation.wait();
          return {};
        });
    for (IndividualId id = 1; id <= 20; ++id) pool.push(job(id), Priority::usual, finished.done());
    const auto all = [&] {
      const std::lock_guard lock(finished.mutex);
      return finished.jobs.size() == 20U;
    };
    for (int i = 0; i < 2000 && !all(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    BOOST_TEST(all());
    granted.set_value();
  }
  for (const JobPtr& each : finished.jobs) BOOST_TEST(each->seconds == 1.0);
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_started_gives_its_error_to_a_job_only_if_there_is_no_other) {
  Finished finished;
  {
    WorkerPool pool(
        1, true, [](Job&, int) {}, [](int) -> Expected<void> { return failure("worker", "no allocation"); });
    pool.push(job(1), Priority::usual, finished.done());
  }
  BOOST_REQUIRE(finished.jobs.size() == 1U);
  BOOST_TEST(finished.jobs[0]->trouble.value().message == "no allocation");
}

BOOST_AUTO_TEST_SUITE_END()
