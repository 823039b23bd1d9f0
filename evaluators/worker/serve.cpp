// SPDX-License-Identifier: Apache-2.0
#include "evaluators/worker/serve.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "evaluators/check/oracle.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/judge/cascade.hpp"
#include "evaluators/judge/contender_side.hpp"
#include "evaluators/judge/controls.hpp"
#include "evaluators/judge/duel.hpp"
#include "evaluators/judge/profiling.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/languages/compiler.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/cores.hpp"
#include "evaluators/system/frame.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/worker/protocol.hpp"

namespace cultivar {
namespace {

using Json = nlohmann::json;

constexpr double kIdleSeconds =
    6 * 3600.0;  // an idle worker exits after this time; the engine starts another when needed
constexpr double kAnswerSeconds = 60.0;
constexpr double kProgressSeconds = 0.5;

// True for requests whose result the search waits for (duels, confirmations).
bool compares(const Json& request) {
  const std::string kind = request.at("request").get<std::string>();
  return kind == "gate" ||
         (kind == "evaluate" && request.at("evaluate").value("stop_after", "") == name_of(Stage::confirm));
}

class Worker {
 public:
  Worker(Target target, bool measures, int device)
      : target_(target), measures_(measures), device_number_(device), frames_(frames_over_stdio()) {}

  int run() {
    if (!frames_.write(hello(program_), deadline_in(kAnswerSeconds))) return 1;
    while (true) {
      const auto request = frames_.read(deadline_in(kIdleSeconds));
      if (!request) {
        if (request.error().kind == FrameTrouble::Kind::closed ||
            request.error().kind == FrameTrouble::Kind::timed_out)
          return 0;
        fmt::print(stderr, "{}: {}\n", program_, request.error().message);
        return 1;
      }
      if (request->is_object() && request->value("request", Json()) == "shutdown") return 0;
      if (says_enough(*request)) continue;  // of a duel that has ended meanwhile
      Json said = answer(*request);
      const bool last = device_ && !device_->usable();
      if (last) said["last"] = true;
      if (!frames_.write(said, deadline_in(kAnswerSeconds))) return 1;
      // An orderly exit would wait for a device that may never respond.
      if (last) std::_Exit(0);
    }
  }

 private:
  static Json trouble(const Error& error, const std::string& contender = {}) {
    return {{"trouble", error}, {"contender", contender}};
  }
  static Json trouble(std::string doing, std::string message) {
    return trouble(Error{ErrorKind::failed, std::move(doing), std::move(message)});
  }

  Json answer(const Json& request) {
    try {
      return dispatch(request);
    } catch (const Json::exception& e) {
      return trouble("protocol", fmt::format("{} received a malformed request: {}", program_, e.what()));
    } catch (const ContenderBrokeDevice& e) {
      return trouble({ErrorKind::failed, "contender " + e.contender(), e.what()}, e.contender());
    } catch (const MissingError& e) {
      return trouble(Error{ErrorKind::missing, "", e.what()});
    } catch (const std::bad_alloc&) {
      return out_of_memory(request.at("request").get<std::string>());
    } catch (const std::exception& e) {
      return trouble(request.at("request").get<std::string>(), e.what());
    }
  }

  // An evaluation is repeated as after other faults of the machine; what can never fit, the engine has not
  // asked for (judge/memory_need.hpp).
  Json out_of_memory(const std::string& kind) {
    const Activity last = last_said();
    const std::string words =
        fmt::format("the system gave {} no more memory, at {}{}", program_, memory_limit_of_a_process().words,
                    last.text.empty() ? "" : "; last activity: " + last.text);
    if (kind != "evaluate") return trouble(kind, words);
    return {{"answer", host_rejection(last.stage.value_or(Stage::smoke), HostFault::out_of_memory, words)}};
  }

  Json dispatch(const Json& request) {
    const std::string kind = request.at("request").get<std::string>();
    if (kind == "configure") return configure(request);
    if (!task_) return trouble("protocol", "the first request must be `configure`");
    if (device_) device_->hasten(compares(request));
    if (kind == "info") return measures_ ? device_info() : compiler_info(request);
    if (kind == "compile" && !measures_) return compile(request);
    if (kind == "evaluate" && measures_)
      return {{"answer", run_cascade(site(), protocol::evaluate_request(request.at("evaluate"), *task_))}};
    if (kind == "gate" && measures_)
      return {{"answer", run_duel(site(), protocol::gate_request(request.at("gate"), *task_))}};
    if (kind == "profile" && measures_)
      return {{"answer", run_profile(site(), protocol::profile_request(request.at("profile"), *task_))}};
    return trouble("protocol", fmt::format("{} {} does not support the request '{}'", program_,
                                           measures_ ? "measure" : "compile", kind));
  }

  Json configure(const Json& request) {
    const int version = request.at("protocol").get<int>();
    if (version != protocol_version)
      return trouble(
          "protocol",
          fmt::format("the engine uses protocol {} but {} uses {}; build both from the same source", version,
                      program_, protocol_version));
    task_ = load_task(request.at("task_folder").get<std::string>());
    cache_ = request.at("cache").get<std::string>();
    request.at("run_deadline_s").get_to(run_deadline_s_);
    request.at("python").get_to(contenders_.python);
    request.at("prepare_deadline_s").get_to(contenders_.prepare_s);
    contenders_.cache = cache_;
    request.at("architecture").get_to(architecture_);
    if (!measures_) {
      compiler_for(usual_language(target_));
      return {{"answer", Json::object()}};
    }
    device_ = target_->open(cache_, device_number_);
    device_->while_waiting([this] { announce(last_said()); });  // repeats the last progress as a sign of life
    const auto step = [this](const std::string& text) { progress({{}, {}, "the oracle: " + text}); };
    const int cores = cores_of(device_->facts());
    step("compiling and loading " + task_->reference.string());
    Expected<TaskReference> oracle = open_reference(*task_, cache_, contenders_.python);
    if (!oracle) return trouble(oracle.error());
    oracle_ = std::move(*oracle);
    if (auto fit = check_controls(*task_, *oracle_, target_, cores, step); !fit) return trouble(fit.error());
    return {{"answer", Json::object()}};
  }

  Json device_info() {
    DeviceInfo info = device_->info();
    info.ceilings = device_->ceilings();
    return {{"answer", info}};
  }
  Compiler& compiler_for(Language language) {
    std::unique_ptr<Compiler>& compiler = compilers_[language];
    if (!compiler) compiler = language->open({*task_, cache_, architecture_, contenders_.python});
    return *compiler;
  }
  Json compiler_info(const Json& request) {
    const Language language = find_language(request.value("language", name_of(usual_language(target_))));
    if (language == nullptr) return trouble("protocol", "there is no such language");
    const CompilerInfo info = compiler_for(language).info();
    return {{"answer",
             {{"identity", info.identity}, {"isolation", info.isolation}, {"weakness", info.weakness}}}};
  }

  Json compile(const Json& request) {
    const Variant variant = protocol::variant(request.at("variant"), *task_);
    Compiler& compiler = compiler_for(variant.manifest.language);
    const auto assignment = request.at("macros").get<std::vector<std::string>>();
    const double deadline_s = request.at("deadline_s").get<double>();
    if (const std::string kind = request.value("build", ""); !kind.empty()) {
      const auto build = kind == "check" ? compiler.compile_check_build(variant, assignment, deadline_s)
                                         : compiler.compile_overflow_build(variant, assignment, deadline_s);
      if (!build) return trouble(build.error());
      return {{"answer", {{"binary", *build}}}};
    }
    const auto binary = compiler.compile(variant, assignment, deadline_s);
    if (!binary) return {{"answer", {{"failure", binary.error()}}}};
    return {{"answer", {{"binary", *binary}}}};
  }

  CascadeSite site() {
    return {*device_,
            *task_,
            *oracle_,
            run_deadline_s_,
            [this](const Activity& doing) { progress(doing); },
            stock_,
            [this](const Activity& doing) { announce(doing); },
            contenders_,
            [this] { return enough(); }};
  }

  static bool says_enough(const Json& message) {
    return message.is_object() && message.value("request", Json()) == "enough";
  }

  // During a duel: the engine says that it is no longer needed, or is gone.
  bool enough() {
    if (!frames_.waiting()) return false;
    const auto message = frames_.read(deadline_in(kAnswerSeconds));
    return !message || says_enough(*message);
  }

  // Another step is told at once, since it may be long. A duel's texts are counts, which change often.
  void progress(const Activity& doing) {
    const Activity last = last_said();
    const bool counts = doing.stage == Stage::gate && last.stage == Stage::gate;
    if ((counts || doing.text == last.text) &&
        Clock::now() - last_progress_ < std::chrono::duration<double>(kProgressSeconds))
      return;
    announce(doing);
  }

  Activity last_said() {
    const std::lock_guard lock(announcing_);
    return last_said_;
  }

  void announce(Activity doing) {  // also called by the thread that tells that a contender is still preparing
    const std::lock_guard lock(announcing_);
    last_progress_ = Clock::now();
    last_said_ = std::move(doing);
    // A disconnected engine is detected at the next read.
    (void)frames_.write({{"progress", last_said_}}, deadline_in(kAnswerSeconds));
  }

  Target target_;
  std::string program_ = worker_program(target_);
  bool measures_;
  int device_number_;
  FrameStream frames_;
  std::optional<Task> task_;
  std::filesystem::path cache_;
  std::string architecture_;
  double run_deadline_s_ = 10.0;
  ContenderSettings contenders_;
  std::map<Language, std::unique_ptr<Compiler>> compilers_;
  std::unique_ptr<Device> device_;
  std::optional<TaskReference> oracle_;
  std::shared_ptr<TimingStock> stock_ = std::make_shared<TimingStock>();
  std::mutex announcing_;
  Clock::time_point last_progress_{};
  Activity last_said_;
};

}  // namespace

int serve(Target target, int argc, char** argv) {
  notice_stops();
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "contender" && argc == 4) return contender_trial(argv[2], argv[3], target);
  int device = 0, cores = 0;
  bool good = role == "compile" ? argc == 2 : role == "measure" && argc % 2 == 0;
  for (int i = 2; good && i < argc; i += 2) {
    const std::string option = argv[i];
    char* end = nullptr;
    const auto number = static_cast<int>(std::strtol(argv[i + 1], &end, 10));
    good = end != argv[i + 1] && *end == '\0' && number >= 0 && (option == "--device" || option == "--cores");
    (option == "--device" ? device : cores) = number;
  }
  if (!good) {
    fmt::print(stderr,
               "usage: {0} compile\n       {0} measure [--device N] [--cores N]\n"
               "       {0} contender LIBRARY TASK_FOLDER\nStarted by cultivar, which "
               "communicates over stdin and stdout; not for manual use.\n",
               worker_program(target));
    return 2;
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  ::signal(SIGXFSZ, SIG_IGN);  // memory beyond a limit of file sizes is an error, not a death
  if (cores > 0) stay_on_cores(cores);
  // Beside a separate device all workers run at once: one that times must not wait for a core, and a compiler
  // may. Without permission to raise the priority, some samples do not count.
  if (!target->on_host) ::setpriority(PRIO_PROCESS, 0, role == "compile" ? 10 : -5);
  return Worker(target, role == "measure", device).run();
}

}  // namespace cultivar
