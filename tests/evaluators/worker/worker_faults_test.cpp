// SPDX-License-Identifier: Apache-2.0
// Faults of the machine while workers judge: another worker does the work, or the host is named as the cause.
// runs alone
#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "evaluators/worker/services_fixture.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

// With a cache of its own, which a test may damage.
ServiceOptions options_with_cache(const fs::path& cache) {
  ServiceOptions options = options_for("softmax");
  options.cache = cache;
  return options;
}

// To all processes below this one that run a kernel.
void signal_cells(int above, int signal) {
  for (const int pid : children(above)) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    if (name == "cell") kill(pid, signal);
    signal_cells(pid, signal);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(worker_faults)

BOOST_AUTO_TEST_CASE(a_worker_that_was_killed_is_replaced_and_the_work_done) {
  Services services("softmax");
  EvaluateRequest request = services.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;  // so that it is at work for a while
  request.sampling.screening_seconds = 2.0;
  const std::vector<int> before = children();
  BOOST_REQUIRE(services.device.info());
  std::vector<int> workers = children();
  std::erase_if(workers,
                [&](int pid) { return std::find(before.begin(), before.end(), pid) != before.end(); });
  BOOST_REQUIRE(!workers.empty());
  for (const int pid : workers) {  // so that nothing below a worker outlives it
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    BOOST_TEST(name == "process-guard");
  }
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    for (const int pid : workers) kill(pid, SIGKILL);
  });
  const auto e = services.device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_TEST(e->measured(), e->reason << e->diagnostics);
  BOOST_TEST(e->worker_lost);
  BOOST_TEST(!services.evaluate(request).worker_lost);
}

// A scheduler may take hours to start another worker, while other workers could do the work.
BOOST_AUTO_TEST_CASE(work_of_a_lost_worker_does_not_wait_for_its_launcher) {
  const TemporaryFolder folder;
  ServiceOptions options = options_for("softmax");
  options.launcher = {"sh", "-c", "mkdir \"$0\" && exec \"$@\"; sleep 20", (folder.path() / "once").string()};
  Services services("softmax");
  EvaluateRequest request = services.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;
  request.sampling.screening_seconds = 20.0;
  const std::vector<int> before = children();
  DeviceService device(options);
  BOOST_REQUIRE(device.info());
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    for (const int pid : children())
      if (std::find(before.begin(), before.end(), pid) == before.end()) kill(pid, SIGKILL);
  });
  const auto e = device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));  // else it waited for the second start, which fails
  BOOST_TEST(e->worker_lost);
  BOOST_REQUIRE(e->host_fault.has_value());
  BOOST_TEST(name_of(*e->host_fault) == "killed");
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_killed_again_and_again_is_a_fault_of_the_host) {
  Services services("softmax");
  EvaluateRequest request = services.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;
  request.sampling.screening_seconds = 20.0;
  const std::vector<int> compilers = children();
  BOOST_REQUIRE(services.device.info());
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      for (const int pid : children())
        if (std::find(compilers.begin(), compilers.end(), pid) == compilers.end()) kill(pid, SIGKILL);
    }
  });
  const auto e = services.device.evaluate(request);
  if (!e) {  // it was killed before it was ready: no evaluation at all
    BOOST_TEST(words(e).find("from outside") != std::string::npos, words(e));
    return;
  }
  BOOST_REQUIRE(e->host_fault.has_value());
  BOOST_TEST(name_of(*e->host_fault) == "killed");
  BOOST_TEST(e->diagnostics.find("killed by SIGKILL, from outside") != std::string::npos, e->diagnostics);
}

// A batch system sends it to all processes of a job, of which the worker may be the last to end.
BOOST_AUTO_TEST_CASE(a_kernel_whose_process_gets_a_signal_of_another_one_is_not_rejected_for_it) {
  Services services("softmax");
  EvaluateRequest request = services.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;
  request.sampling.screening_seconds = 20.0;
  BOOST_REQUIRE(services.device.info());
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      signal_cells(getpid(), SIGTERM);
    }
  });
  const auto e = services.device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_REQUIRE_MESSAGE(e->host_fault.has_value(), e->reason << e->diagnostics);
  BOOST_TEST(name_of(*e->host_fault) == "killed");
  BOOST_TEST(e->diagnostics.find("killed from outside (SIGTERM)") != std::string::npos, e->diagnostics);
}

BOOST_AUTO_TEST_CASE(a_kernel_whose_sandbox_is_killed_before_it_is_loaded_is_not_rejected_for_it) {
  Services services("softmax");
  EvaluateRequest request = services.request(kSlow, rows_and_columns(2048, 1024));
  BOOST_REQUIRE(services.device.info());
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) signal_cells(getpid(), SIGKILL);
  });
  const auto e = services.device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_REQUIRE_MESSAGE(e->host_fault.has_value(), e->reason << e->diagnostics);
  BOOST_TEST(name_of(*e->host_fault) == "killed");
}

BOOST_AUTO_TEST_CASE(a_compiled_kernel_that_is_no_longer_in_the_cache_is_a_fault_of_the_host) {
  const TemporaryFolder cache;
  Services services("softmax", options_with_cache(cache.path()));
  const EvaluateRequest request = services.request(kSlow, rows_and_columns(2048, 1024));
  for (const Binary& binary : request.variant.binaries) fs::remove(binary.path);
  const Evaluation lost = services.evaluate(request);
  BOOST_REQUIRE(lost.host_fault.has_value());
  BOOST_TEST(name_of(*lost.host_fault) == "cache_lost");
  // Compiled once more, it is measured.
  BOOST_TEST(services.evaluate(services.request(kSlow, rows_and_columns(2048, 1024))).measured());
}

BOOST_AUTO_TEST_CASE(a_cache_that_cannot_be_written_is_a_fault_of_the_host) {
  const TemporaryFolder cache;
  CompileService compiler(options_with_cache(cache.path()));
  (void)compiler.compiler_identity();
  fs::remove_all(cache.path());
  std::ofstream(cache.path()) << "a file where the folder was";
  const auto compiled = compiler.compile(load_variant(kSlow, softmax().task), {rows_and_columns(64, 64)});
  BOOST_REQUIRE(!compiled);
  BOOST_REQUIRE(compiled.error().host_fault.has_value());
  BOOST_TEST(name_of(*compiled.error().host_fault) == "cache_unwritable");
}

BOOST_AUTO_TEST_SUITE_END()
