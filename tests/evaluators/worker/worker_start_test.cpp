// SPDX-License-Identifier: Apache-2.0
// How workers are started, by a launcher or without, and what is said when that fails.
// runs alone
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "evaluators/worker/link.hpp"
#include "evaluators/worker/protocol.hpp"
#include "evaluators/worker/services_fixture.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const std::string kHello =
    fmt::format(R"({{"cultivar":{},"worker":"cultivar-worker-cpu"}})", protocol_version);

// A folder that holds a program called cultivar-worker-cpu which is a script.
class ScriptedWorker {
 public:
  explicit ScriptedWorker(const std::string& body) {
    write_text(folder_ / "cultivar-worker-cpu", "#!/bin/sh\n" + body + "\n", true);
  }
  ServiceOptions options() const {
    ServiceOptions o = options_for("softmax");
    o.programs = folder_.path();
    return o;
  }

 private:
  TemporaryFolder folder_;
};

std::string frame(const std::string& json) {
  return "printf '%s\\n%s\\n' " + std::to_string(json.size()) + " '" + json + "'\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(worker_start)

BOOST_AUTO_TEST_CASE(a_launcher_is_tried_out_with_one_worker) {
  ServiceOptions options = options_for("softmax");
  options.launcher = {"env", "X=1"};
  BOOST_TEST(WorkerLink(options, "measure").greet().has_value());
  options.launcher = {"sh", "-c", "echo no such partition >&2; exit 3"};
  options.queue_deadline_s = 20.0;
  const auto failed = WorkerLink(options, "measure").greet();
  BOOST_REQUIRE(!failed);
  BOOST_TEST(name_of(failed.error().fault) == "launcher_failed");
  BOOST_TEST(
      WorkerLink(options, "compile").greet().has_value());  // compile workers have a launcher of their own
  options.launcher = {"sh", "-c", "sleep 20"};
  options.queue_deadline_s = 0.5;
  const auto queued = WorkerLink(options, "measure").greet();
  BOOST_REQUIRE(!queued);
  BOOST_TEST(name_of(queued.error().fault) == "launcher_failed");
}

BOOST_AUTO_TEST_CASE(a_launcher_that_chooses_another_kind_of_device_is_refused) {
  ServiceOptions options = options_for("softmax");
  options.launcher = {"env", "X=1"};
  DeviceService device(options);
  const auto info = device.info();
  BOOST_REQUIRE(info);
  BOOST_TEST(!info->model.empty());
  BOOST_TEST(device.open(*info).has_value());
  BOOST_TEST(!device.unlike());
  DeviceInfo larger = *info, faster = *info;
  larger.facts["num_cores"] = 1000.0;
  faster.model += " with faster memory";  // cards of two models may have equal facts
  for (const DeviceInfo& other : {larger, faster}) {
    DeviceService elsewhere(options);
    const auto opened = elsewhere.open(other);
    BOOST_REQUIRE(!opened);
    BOOST_TEST(opened.error().message.find("cannot be compared") != std::string::npos,
               opened.error().message);
    BOOST_REQUIRE(elsewhere.unlike().has_value());
    BOOST_TEST(elsewhere.unlike()->description == info->description);
  }
}

BOOST_AUTO_TEST_CASE(interrupt_ends_the_call_in_flight_and_every_later_one) {
  Services services("softmax");
  const EvaluateRequest request = services.request(kHonest, rows_and_columns(8192, 1024));
  BOOST_REQUIRE(services.device.info());
  std::thread interrupter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    services.device.interrupt();
    services.compiler.interrupt();
  });
  const auto start = std::chrono::steady_clock::now();
  const auto e = services.device.evaluate(request);
  interrupter.join();
  BOOST_REQUIRE(!e);
  BOOST_TEST((e.error().kind == ErrorKind::interrupted));
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(5)));
  BOOST_TEST((services.device.evaluate(request).error().kind == ErrorKind::interrupted));
  const auto compiled = services.compiler.compile(load_variant(kHonest, services.task), request.workloads);
  BOOST_REQUIRE(!compiled);
  BOOST_TEST(compiled.error().reason == "interrupted");
}

BOOST_AUTO_TEST_CASE(a_launcher_is_put_before_the_worker) {
  ServiceOptions options = options_for("softmax");
  options.launcher = {"env", "CULTIVAR_TEST_LAUNCHER=1"};
  DeviceService device(options);
  const auto info = device.info();
  BOOST_REQUIRE_MESSAGE(info, words(info));
  BOOST_TEST(info->facts.at("num_cores") >= 1.0);
}

BOOST_AUTO_TEST_CASE(a_launcher_that_fails_is_reported_with_its_output) {
  ServiceOptions options = options_for("softmax");
  options.launcher = {"sh", "-c", "echo no such partition >&2; exit 3"};
  DeviceService device(options);
  const auto info = device.info();
  BOOST_REQUIRE(!info);
  BOOST_TEST(info.error().message.find("no such partition") != std::string::npos, info.error().message);
}

BOOST_AUTO_TEST_CASE(a_missing_worker_program_is_reported_by_its_path) {
  ServiceOptions options = options_for("softmax");
  options.programs = "/nowhere";
  DeviceService device(options);
  const auto info = device.info();
  BOOST_REQUIRE(!info);
  BOOST_TEST(info.error().message.find("/nowhere/cultivar-worker-cpu") != std::string::npos,
             info.error().message);
  CompileService compiler(options);
  BOOST_CHECK_THROW(compiler.compiler_identity(), MissingError);
}

BOOST_AUTO_TEST_CASE(a_worker_that_speaks_garbage_is_refused) {
  const ScriptedWorker garbage("echo hello there; sleep 5");
  DeviceService device(garbage.options());
  const auto info = device.info();
  BOOST_REQUIRE(!info);
  BOOST_TEST(info.error().message.find("hello there") != std::string::npos, info.error().message);
}

BOOST_AUTO_TEST_CASE(a_worker_of_another_version_is_refused_and_the_older_side_named) {
  const ScriptedWorker old(frame(R"({"cultivar":0,"worker":"cultivar-worker-cpu"})") + "sleep 5");
  DeviceService device(old.options());
  const auto info = device.info();
  BOOST_REQUIRE(!info);
  const std::string said = info.error().message;
  BOOST_TEST((said.find("version") != std::string::npos || said.find("older") != std::string::npos), said);
}

// The same for a wedged GPU: the driver waits for it forever.
BOOST_AUTO_TEST_CASE(a_worker_that_never_gets_ready_is_the_devices_trouble_and_no_candidates) {
  const ScriptedWorker wedged(frame(kHello) + "sleep 30");
  ServiceOptions options = wedged.options();
  options.start_deadline_s = 1.0;
  DeviceService device(options);
  EvaluateRequest request;
  request.workloads = {rows_and_columns(64, 64)};
  const auto e = device.evaluate(request);
  BOOST_REQUIRE(!e);
  BOOST_TEST(e.error().message.find("timed out after 1 s") != std::string::npos, e.error().message);
}

BOOST_AUTO_TEST_CASE(a_worker_that_lies_about_its_answer_is_an_error_and_no_crash) {
  const std::string hello = frame(kHello);
  const std::string configured = frame(R"({"answer":{}})");
  for (const char* answer :
       {R"({"answer":{"fitness":"much"}})", R"([1,2,3])", R"({"answer":null})", R"({"trouble":5})"}) {
    const ScriptedWorker liar(hello + configured + frame(answer) + "sleep 5");
    DeviceService device(liar.options());
    const auto info = device.info();
    BOOST_TEST(!info.has_value(), answer);
  }
}

BOOST_AUTO_TEST_SUITE_END()
