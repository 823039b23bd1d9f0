// Whole evaluations through real worker processes, and the state of the service after faults.
// runs alone
#include "evaluators/worker/services.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "evaluators/judge/stages.hpp"
#include "evaluators/worker/link.hpp"
#include "support/command.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = CULTIVAR_SOURCE_DIR;

ServiceOptions options_for(const std::string& task) {
  ServiceOptions options;
  options.programs = CULTIVAR_BIN_DIR;
  options.cache = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";
  options.task_folder = kSource / "configs/tasks" / task;
  options.compile_workers = 2;
  options.run_deadline_s = 10.0;
  return options;
}

struct InstallationPaths {
  explicit InstallationPaths(const std::string& name, ServiceOptions given)
      : task(load_task(kSource / "configs/tasks" / name)), compiler(given), device(given) {}
  explicit InstallationPaths(const std::string& name) : InstallationPaths(name, options_for(name)) {}

  Workload workload(std::map<std::string, double> values) const {
    Workload w;
    w.name = "w";
    w.dtype = Dtype::f32;
    for (const auto& [key, value] : values) w.values[key] = value;
    return w;
  }
  EvaluateRequest request(const fs::path& file, const Workload& w) {
    const auto compiled = compiler.compile(load_variant(file, task), {w});
    BOOST_REQUIRE_MESSAGE(compiled, words(compiled));
    EvaluateRequest r;
    r.variant = *compiled;
    r.workloads = {w};
    r.sampling.screening_samples = 5;
    return r;
  }
  Evaluation evaluate(const EvaluateRequest& r) {
    const auto evaluation = device.evaluate(r);
    BOOST_REQUIRE_MESSAGE(evaluation, words(evaluation));
    return *evaluation;
  }

  Task task;
  CompileService compiler;
  DeviceService device;
};

InstallationPaths& softmax() {
  static InstallationPaths installation("softmax");
  return installation;
}
Workload rows_and_columns(double rows, double columns) {
  return softmax().workload({{"R", rows}, {"C", columns}});
}
const fs::path kHonest = kSource / "tests/kernels/honest_softmax.cpp";
const fs::path kSlow = kSource / "tests/kernels/slow_softmax.cpp";  // long enough on small inputs

// A folder that holds a program called cultivar-worker-cpu which is a script.
class ScriptedWorker {
 public:
  explicit ScriptedWorker(const std::string& body) {
    std::string name = (fs::temp_directory_path() / "cultivar-worker-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(folder_ / "cultivar-worker-cpu") << "#!/bin/sh\n" << body << "\n";
    BOOST_REQUIRE(chmod((folder_ / "cultivar-worker-cpu").c_str(), 0755) == 0);
  }
  ~ScriptedWorker() { fs::remove_all(folder_); }
  ServiceOptions options() const {
    ServiceOptions o = options_for("softmax");
    o.programs = folder_;
    return o;
  }

 private:
  fs::path folder_;
};

// A cache of its own, which a test may damage.
class ScratchCache {
 public:
  ScratchCache() {
    std::string name = (fs::temp_directory_path() / "cultivar-cache-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchCache() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  ServiceOptions options() const {
    ServiceOptions o = options_for("softmax");
    o.cache = path_;
    return o;
  }

 private:
  fs::path path_;
};

// The workers among this process's children.
std::vector<int> children(int of = getpid()) {
  std::vector<int> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "stat");
    std::string stat;
    std::getline(in, stat, '\0');
    if (stat.find(')') == std::string::npos) continue;  // it has ended
    std::istringstream rest(stat.substr(stat.rfind(')') + 1));
    std::string state;
    int parent = 0;
    if (rest >> state >> parent && parent == of && state != "Z") pids.push_back(std::stoi(name));
  }
  return pids;
}

std::string frame(const std::string& json) {
  return "printf '%s\\n%s\\n' " + std::to_string(json.size()) + " '" + json + "'\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(services)

BOOST_AUTO_TEST_CASE(the_naive_attention_is_checked_and_measured) {
  InstallationPaths installation("attention_forward");
  const Workload w = installation.workload({{"B", 1},
                                            {"H", 4},
                                            {"H_kv", 1},
                                            {"S_q", 512},
                                            {"S_kv", 512},
                                            {"D", 64},
                                            {"causal", 1},
                                            {"scale", 0.125},
                                            {"window", 0},
                                            {"softcap", 0}});
  const EvaluateRequest request =
      installation.request(kSource / "configs/tasks/attention_forward/seeds/naive.cpp", w);
  const Evaluation e = installation.evaluate(request);
  BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
  BOOST_TEST(e.fitness > 0.0);
  BOOST_TEST(e.unit == "GFLOPS");
  BOOST_REQUIRE(e.workloads.size() == 1U);
  BOOST_TEST(e.workloads[0].samples.size() == 5U);
  BOOST_TEST(e.workloads[0].q1_us <= e.workloads[0].median_us);
  BOOST_TEST(e.workloads[0].median_us <= e.workloads[0].q3_us);
  BOOST_TEST(e.workloads[0].value == installation.task.flops(w) / e.workloads[0].median_us / 1e3,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(e.input_seed != 0U);
  BOOST_TEST(e.machine_code.size() == 64U);
  BOOST_TEST(installation.evaluate(request).input_seed != e.input_seed);
}

BOOST_AUTO_TEST_CASE(a_far_slower_variant_stops_early_with_its_true_count) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 20;
  request.incumbent_us["w"] = 1.0;
  const Evaluation e = softmax().evaluate(request);
  BOOST_TEST(e.measured(), e.reason);
  BOOST_REQUIRE(e.workloads.size() == 1U);
  BOOST_TEST(e.workloads[0].samples.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_contender_is_timed_in_turn_and_gives_a_ratio) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.max_samples = 6;
  const auto contender = softmax().compiler.compile(load_variant(kSlow, softmax().task), request.workloads);
  BOOST_REQUIRE_MESSAGE(contender, words(contender));
  request.contenders.emplace_back("itself", *contender);
  const Evaluation e = softmax().evaluate(request);
  BOOST_TEST(e.measured(), e.reason);
  BOOST_REQUIRE(e.workloads.size() == 1U);
  BOOST_REQUIRE(e.workloads[0].ratios.count("itself") == 1U);
  BOOST_TEST(e.workloads[0].ratios.at("itself") > 0.4);
  BOOST_TEST(e.workloads[0].ratios.at("itself") < 2.5);
}

BOOST_AUTO_TEST_CASE(confirmation_runs_in_a_fresh_process_and_checks_the_holdout_shapes) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.stop_after = Stage::confirm;
  std::vector<std::string> seen;
  const auto before = children();
  const auto e = softmax().device.evaluate(request, [&](const std::string& text) { seen.push_back(text); });
  BOOST_REQUIRE(e);
  BOOST_TEST(e->measured(), e->reason);
  BOOST_TEST((e->stage == Stage::confirm));
  BOOST_TEST((children() != before));
}

BOOST_AUTO_TEST_CASE(the_gate_runs_its_blocks_and_every_side_of_them) {
  GateRequest request;
  request.challenger = request.incumbent = request.control =
      softmax().request(kSlow, rows_and_columns(2048, 1024)).variant;
  request.workloads = {rows_and_columns(2048, 1024)};
  request.options.max_device_seconds = 1.0;
  request.seed = 7;
  const auto report = softmax().device.gate(request);
  BOOST_REQUIRE_MESSAGE(report, words(report));
  BOOST_TEST(report->trouble.empty());
  BOOST_TEST((report->decision.verdict != Verdict::better));
  BOOST_TEST(report->decision.blocks + report->decision.batches > 0);
  BOOST_REQUIRE(report->challenger_seconds.size() == 1U);
  BOOST_TEST(report->challenger_seconds[0] > 0.0);
  BOOST_TEST(report->incumbent_seconds[0] > 0.0);
}

BOOST_AUTO_TEST_CASE(a_challenger_that_cheats_in_the_duel_is_worse) {
  GateRequest request;
  const Workload w = rows_and_columns(8192, 1024);
  request.incumbent = request.control = softmax().request(kHonest, w).variant;
  request.challenger =
      softmax().request(kSource / "tests/kernels/cheats/skips_work_on_large_inputs.cpp", w).variant;
  request.workloads = {w};
  request.options.max_device_seconds = 1.0;
  const auto report = softmax().device.gate(request);
  BOOST_REQUIRE_MESSAGE(report, words(report));
  BOOST_TEST((report->decision.verdict == Verdict::worse));
  BOOST_REQUIRE(report->trouble.size() == 1U);
  BOOST_TEST(report->trouble[0].find("challenger") != std::string::npos, report->trouble[0]);
}

BOOST_AUTO_TEST_CASE(a_variant_that_does_not_claim_the_workload_is_refused_before_anything_runs) {
  const auto compiled = softmax().compiler.compile(load_variant(kHonest, softmax().task), {[] {
                                                     Workload w = rows_and_columns(64, 64);
                                                     w.dtype = Dtype::f64;
                                                     return w;
                                                   }()});
  BOOST_REQUIRE(!compiled);
  BOOST_TEST((compiled.error().stage == Stage::lint));
}

BOOST_AUTO_TEST_CASE(what_compiles_for_some_shapes_alone_is_refused_with_what_the_others_have_of_their_own) {
  InstallationPaths installation("attention_forward");
  std::ifstream seed(kSource / "configs/tasks/attention_forward/seeds/tiled.cpp");
  std::ostringstream text;
  text << seed.rdbuf();
  std::string source = text.str();
  source.insert(source.find("---*/") + 6, "#if D == 96\n#error \"too wide\"\n#endif\n");
  auto variant = make_variant(source, installation.task, {});
  BOOST_REQUIRE(variant.has_value());
  const std::map<std::string, double> least = {{"B", 1},    {"H", 1},      {"H_kv", 1},   {"S_q", 8},
                                               {"S_kv", 8}, {"window", 0}, {"softcap", 0}};
  const auto of_width = [&](double width) {
    auto values = least;
    values["D"] = width;
    values["causal"] = 0;
    values["scale"] = 0.125;
    return installation.workload(values);
  };
  const auto compiled = installation.compiler.compile(*variant, {of_width(64), of_width(96)});
  BOOST_REQUIRE(!compiled);
  BOOST_TEST(compiled.error().reason.ends_with(", with D=96"), compiled.error().reason);
}

BOOST_AUTO_TEST_CASE(a_variant_of_another_target_is_refused_even_where_its_source_would_compile) {
  Variant variant = load_variant(kHonest, softmax().task);
  variant.manifest.target = target_named("cuda");
  const auto compiled = softmax().compiler.compile(variant, {rows_and_columns(64, 64)});
  BOOST_REQUIRE(!compiled);
  BOOST_TEST((compiled.error().stage == Stage::lint));
  BOOST_TEST(compiled.error().reason.find("--target cuda") != std::string::npos, compiled.error().reason);
}

BOOST_AUTO_TEST_CASE(a_worker_that_was_killed_is_replaced_and_the_work_done) {
  InstallationPaths installation("softmax");
  EvaluateRequest request = installation.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;  // so that it is at work for a while
  request.sampling.screening_seconds = 2.0;
  const std::vector<int> before = children();
  BOOST_REQUIRE(installation.device.info());
  std::vector<int> workers = children();
  std::erase_if(workers,
                [&](int pid) { return std::find(before.begin(), before.end(), pid) != before.end(); });
  BOOST_REQUIRE(!workers.empty());
  for (const int pid : workers) {  // so that nothing below a worker outlives it
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    BOOST_TEST(name == "cultivar-guard");
  }
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    for (const int pid : workers) kill(pid, SIGKILL);
  });
  const auto e = installation.device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_TEST(e->measured(), e->reason << e->diagnostics);
  BOOST_TEST(e->worker_lost);
  BOOST_TEST(!installation.evaluate(request).worker_lost);
}

// A scheduler may take hours to start another worker, while other workers could do the work.
BOOST_AUTO_TEST_CASE(work_of_a_lost_worker_does_not_wait_for_its_launcher) {
  const testing::TemporaryFolder folder;
  ServiceOptions options = options_for("softmax");
  options.launcher = {"sh", "-c", "mkdir \"$0\" && exec \"$@\"; sleep 20", (folder.path() / "once").string()};
  InstallationPaths installation("softmax");
  EvaluateRequest request = installation.request(kSlow, rows_and_columns(2048, 1024));
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
  InstallationPaths installation("softmax");
  EvaluateRequest request = installation.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;
  request.sampling.screening_seconds = 20.0;
  const std::vector<int> compilers = children();
  BOOST_REQUIRE(installation.device.info());
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      for (const int pid : children())
        if (std::find(compilers.begin(), compilers.end(), pid) == compilers.end()) kill(pid, SIGKILL);
    }
  });
  const auto e = installation.device.evaluate(request);
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
  InstallationPaths installation("softmax");
  EvaluateRequest request = installation.request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 100000;
  request.sampling.screening_seconds = 20.0;
  BOOST_REQUIRE(installation.device.info());
  const std::function<void(int)> signal_cells = [&](int above) {
    for (const int pid : children(above)) {
      std::string name;
      std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
      if (name == "cell") kill(pid, SIGTERM);
      signal_cells(pid);
    }
  };
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      signal_cells(getpid());
    }
  });
  const auto e = installation.device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_REQUIRE_MESSAGE(e->host_fault.has_value(), e->reason << e->diagnostics);
  BOOST_TEST(name_of(*e->host_fault) == "killed");
  BOOST_TEST(e->diagnostics.find("killed from outside (SIGTERM)") != std::string::npos, e->diagnostics);
}

BOOST_AUTO_TEST_CASE(a_kernel_whose_sandbox_is_killed_before_it_is_loaded_is_not_rejected_for_it) {
  InstallationPaths installation("softmax");
  EvaluateRequest request = installation.request(kSlow, rows_and_columns(2048, 1024));
  BOOST_REQUIRE(installation.device.info());
  const std::function<void(int)> kill_cells = [&](int above) {
    for (const int pid : children(above)) {
      std::string name;
      std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
      if (name == "cell") kill(pid, SIGKILL);
      kill_cells(pid);
    }
  };
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) kill_cells(getpid());
  });
  const auto e = installation.device.evaluate(request);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_REQUIRE_MESSAGE(e->host_fault.has_value(), e->reason << e->diagnostics);
  BOOST_TEST(name_of(*e->host_fault) == "killed");
}

BOOST_AUTO_TEST_CASE(a_compiled_kernel_that_is_no_longer_in_the_cache_is_a_fault_of_the_host) {
  const ScratchCache cache;
  InstallationPaths installation("softmax", cache.options());
  const EvaluateRequest request = installation.request(kSlow, rows_and_columns(2048, 1024));
  for (const Binary& binary : request.variant.binaries) fs::remove(binary.path);
  const Evaluation lost = installation.evaluate(request);
  BOOST_REQUIRE(lost.host_fault.has_value());
  BOOST_TEST(name_of(*lost.host_fault) == "cache_lost");
  // Compiled once more, it is measured.
  BOOST_TEST(installation.evaluate(installation.request(kSlow, rows_and_columns(2048, 1024))).measured());
}

BOOST_AUTO_TEST_CASE(a_cache_that_cannot_be_written_is_a_fault_of_the_host) {
  const ScratchCache cache;
  CompileService compiler(cache.options());
  (void)compiler.compiler_identity();
  fs::remove_all(cache.path());
  std::ofstream(cache.path()) << "a file where the folder was";
  const auto compiled = compiler.compile(load_variant(kSlow, softmax().task), {rows_and_columns(64, 64)});
  BOOST_REQUIRE(!compiled);
  BOOST_REQUIRE(compiled.error().host_fault.has_value());
  BOOST_TEST(name_of(*compiled.error().host_fault) == "cache_unwritable");
}

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
  InstallationPaths installation("softmax");
  const EvaluateRequest request = installation.request(kHonest, rows_and_columns(8192, 1024));
  BOOST_REQUIRE(installation.device.info());
  std::thread interrupter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    installation.device.interrupt();
    installation.compiler.interrupt();
  });
  const auto start = std::chrono::steady_clock::now();
  const auto e = installation.device.evaluate(request);
  interrupter.join();
  BOOST_REQUIRE(!e);
  BOOST_TEST((e.error().kind == ErrorKind::interrupted));
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(5)));
  BOOST_TEST((installation.device.evaluate(request).error().kind == ErrorKind::interrupted));
  const auto compiled =
      installation.compiler.compile(load_variant(kHonest, installation.task), request.workloads);
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
  const ScriptedWorker wedged(frame(R"({"cultivar":6,"worker":"cultivar-worker-cpu"})") + "sleep 30");
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
  const std::string hello = frame(R"({"cultivar":6,"worker":"cultivar-worker-cpu"})");
  const std::string configured = frame(R"({"answer":{}})");
  for (const char* answer :
       {R"({"answer":{"fitness":"much"}})", R"([1,2,3])", R"({"answer":null})", R"({"trouble":5})"}) {
    const ScriptedWorker liar(hello + configured + frame(answer) + "sleep 5");
    DeviceService device(liar.options());
    const auto info = device.info();
    BOOST_TEST(!info.has_value(), answer);
  }
}

BOOST_AUTO_TEST_CASE(a_task_whose_control_passes_is_refused_when_the_worker_loads_it) {
  std::string name = (fs::temp_directory_path() / "cultivar-loose-XXXXXX").string();
  BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
  const fs::path folder = fs::path(name) / "softmax";
  fs::copy(kSource / "configs/tasks/softmax", folder, fs::copy_options::recursive);
  // Replaces the model of the permitted roundings by one that allows everything.
  std::ifstream in(folder / "reference.cpp");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  in.close();
  const std::string model = "void reference_row_rounded";
  BOOST_REQUIRE(text.find(model) != std::string::npos);
  text.replace(text.find(model), model.size(), "void unused");
  std::ofstream(folder / "reference.cpp") << text << R"(
extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t, double* out) {
  for (std::int64_t c = 0; c < args.integer("C"); ++c) out[c] = 1e6;
}
)";
  ServiceOptions options = options_for("softmax");
  options.task_folder = folder;
  DeviceService device(options);
  const auto info = device.info();
  BOOST_REQUIRE(!info);
  BOOST_TEST(info.error().message.find("cannot detect wrong outputs") != std::string::npos,
             info.error().message);
  fs::remove_all(name);
}

BOOST_AUTO_TEST_SUITE_END()
