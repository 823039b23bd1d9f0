// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/worker/services.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// What the doctor finds out about each target: its compiler, its devices, how candidates are kept in, and
// which contender libraries load.

struct DoctorReport {
  const Output& output;
  nlohmann::json facts = {}, missing = nlohmann::json::array();

  void line(const std::string& what, const std::string& words) const;
  void lacks(const std::string& what, const std::string& remedy, bool needed);
};

json facts_of(const DeviceInfo& info) {
  return {{"device", info.description},
          {"isolation", info.isolation},
          {"facts", json(info.facts)},
          {"ceilings", ceilings_json(info.ceilings)}};
}

std::string ceilings_in_words(const Ceilings& c) {
  return fmt::format(
      "{:.1f} GFLOPS, {:.1f} GB/s from memory, {:.1f} GB/s from cache; an empty kernel takes {}",
      c.flops / 1e9, c.bytes_per_second / 1e9, c.cached_bytes_per_second / 1e9, time_of(c.handshake_s * 1e6));
}

bool on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string rest = path ? path : "/usr/bin:/bin";
  for (std::size_t start = 0; start <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', start), rest.size());
    if (::access((rest.substr(start, end - start) + "/" + program).c_str(), X_OK) == 0) return true;
    start = end + 1;
  }
  return false;
}

class TargetExamination {
 public:
  TargetExamination(const InstallationPaths& installation, DoctorReport& report, Target target)
      : installation_(installation), report_(report), target_(target), name_(name_of(target)) {}

  // True when a device answered.
  bool run() {
    report_.output.line(fmt::format("\nThe {} target", name_));
    std::error_code ignored;
    there_ = fs::exists(installation_.programs / worker_program(target_), ignored);
    target_->on_host ? examine_host() : examine_devices();
    for (const NeededProgram& each : target_->programs)
      if (!on_path(each.program)) report_.lacks(each.package, each.remedy, each.needed);
    return well_;
  }

 private:
  json& fact(const std::string& what) { return report_.facts[name_ + "_" + what]; }

  // Workers want a task before they answer: any will do.
  ServiceOptions services() const {
    const std::vector<std::string> tasks = task_names(installation_);
    if (tasks.empty()) throw MissingError("there is no task below configs/tasks");
    const std::string usual = "attention_forward";
    const bool has_usual = std::find(tasks.begin(), tasks.end(), usual) != tasks.end();
    ServiceOptions services;
    services.target = target_;
    services.programs = installation_.programs;
    services.cache = installation_.cache;
    services.task_folder = find_task(installation_, has_usual ? usual : tasks.front());
    return services;
  }

  CompilerInfo examine_compiler(const ServiceOptions& services) {
    const CompilerInfo found = CompileService(services).compiler_info();
    report_.line("compiler", found.identity.substr(0, found.identity.find(" -")));
    report_.line("", found.isolation);
    if (!found.weakness.empty())
      report_.lacks("walls around " + usual_language(target_)->compiler, found.weakness, false);
    return found;
  }

  void unusable(const std::exception& error) {
    report_.line("unusable", error.what());
    report_.lacks(fmt::format("the {} target", name_), error.what(), target_ == usual_target());
  }

  void examine_host() {
    json& facts = report_.facts[name_] = nullptr;
    try {
      const ServiceOptions options = services();
      const CompilerInfo compiling = examine_compiler(options);
      DeviceService device(options);
      const DeviceInfo info = [&] {
        const StepLine line("measuring this machine's ceilings");
        return must(device.info());
      }();
      report_.line("device", info.description);
      report_.line("isolation", info.isolation);
      if (!info.weakness.empty()) report_.lacks("isolation", info.weakness, false);
      report_.line("ceilings", ceilings_in_words(info.ceilings));
      if (!info.ceilings.cold.empty())
        report_.line("", "copy: " + cold_rates_in_words(info.ceilings.cold) +
                             "; each timed run begins with cold caches");
      facts = facts_of(info);
      facts["compiler"] = compiling.identity;
      facts["compiler_isolation"] = compiling.isolation;
      well_ = true;
    } catch (const std::exception& error) {
      unusable(error);
    }
  }

  void examine_devices() {
    report_.facts[name_] = there_;
    fact("compiler") = fact("device") = fact("trouble") = nullptr;
    fact("devices") = json::array();
    if (!there_) {
      const std::string words = fmt::format("this build has no {} worker", name_);
      fact("trouble") = words;
      report_.line("absent", fmt::format("{}; the {} target needs none", words, name_of(usual_target())));
      return;
    }
    try {
      ServiceOptions options = services();
      // Each in a worker that sees it alone.
      const int count = std::max(1, target_->device_count == nullptr ? 1 : target_->device_count());
      for (options.device = 0; options.device < count; ++options.device) examine_device(options, count > 1);
      options.device = 0;
      const CompilerInfo compiling = examine_compiler(options);
      fact("compiler") = compiling.identity;
      fact("compiler_isolation") = compiling.isolation;
    } catch (const std::exception& error) {
      fact("trouble") = error.what();
      unusable(error);
    }
  }

  // The first that answers says what is compiled for.
  void examine_device(ServiceOptions& options, bool several) {
    const std::string name = fmt::format("{} {}", target_->device, options.device);
    const auto info = [&] {
      const StepLine line(fmt::format("looking at {}, and measuring its ceilings", name));
      return DeviceService(options).info();
    }();
    std::string words = info ? info->description : info.error().message;
    if (words.starts_with(name + ": ")) words.erase(0, name.size() + 2);
    report_.line(name, words);
    fact("devices").push_back(info ? facts_of(*info) : json{{"trouble", info.error().message}});
    if (!info) {
      if (fact("trouble").is_null()) fact("trouble") = info.error().message;
      report_.lacks(several ? name : "a " + target_->device, words, false);
      return;
    }
    report_.line("isolation", info->isolation);
    report_.line("ceilings", ceilings_in_words(info->ceilings));
    if (std::exchange(well_, true)) return;
    options.architecture = architecture_of(target_, info->facts);
    fact("device") = facts_of(*info);
    if (target_->architectures == nullptr || options.architecture.empty()) return;
    if (const std::string lacking = target_->architectures->without(options.architecture); !lacking.empty())
      report_.lacks("kernels for " + options.architecture, lacking, false);
  }

  const InstallationPaths& installation_;
  DoctorReport& report_;
  Target target_;
  const std::string& name_;
  bool there_ = false, well_ = false;
};

void examine_contenders(const InstallationPaths& installation, DoctorReport& report,
                        const std::set<Target>& well) {
  report.facts["contenders"] = json::object();
  for (const KnownContender& known : known_contenders(installation.programs)) {
    const Target target = find_target(known.target);
    std::error_code ignored;
    if (!known.program.empty() || known.tasks.empty()) continue;  // see examine_pytorch
    if (target == nullptr || !fs::exists(installation.programs / worker_program(target), ignored)) continue;
    const auto version = [&]() -> Expected<std::string> {
      if (known.library.empty()) return failure("find contender", known.absent);
      if (!well.contains(target))
        return failure("find contender", fmt::format("it was not tried: there is no {}", target->device));
      const StepLine line("loading the contender " + known.name);
      try {
        return try_contender(installation.programs, known.library,
                             find_task(installation, known.tasks.front()), target);
      } catch (const std::exception& error) {  // its task is not here
        return failure("find contender", error.what());
      }
    }();
    report.line("contender", fmt::format("{}: {}", known.name, version ? *version : version.error().message));
    report.facts["contenders"][known.name] =
        version ? json{{"version", *version}} : json{{"trouble", version.error().message}};
    if (!version && (known.library.empty() || well.contains(target)))
      report.lacks("the contender " + known.name, version.error().message, false);
  }
}

// Whether contenders that are Python programs can be run, with the usual interpreter.
void examine_pytorch(const InstallationPaths& installation, DoctorReport& report) {
  const auto version = [&]() -> Expected<std::string> {
    for (const KnownContender& known : known_contenders(installation.programs))
      if (!known.program.empty() && known.library.empty()) return failure("find contender", known.absent);
    const StepLine line("importing PyTorch");
    const auto found = find_interpreter(ServiceOptions{}.python, PythonNeeds::imported_torch);
    if (!found) return tl::make_unexpected(found.error());
    return fmt::format("PyTorch {}, Python {}", found->torch, found->version);
  }();
  report.line("contender",
              fmt::format("torch, torch_compile: {}", version ? *version : version.error().message));
  report.facts["contenders"]["torch"] =
      version ? json{{"version", *version}} : json{{"trouble", version.error().message}};
  if (!version) report.lacks("the contenders torch and torch_compile", version.error().message, false);
}

// Languages that an interpreter of the user's compiles.
void examine_languages(DoctorReport& report) {
  report.facts["languages"] = json::object();
  for (const Language language : languages()) {
    if (language->compiler_of == nullptr) continue;
    const auto found = language->compiler_of(ServiceOptions{}.python);
    report.line("language", fmt::format("{}: {}", name_of(language), found ? *found : found.error().message));
    report.facts["languages"][name_of(language)] =
        found ? json{{"compiler", *found}} : json{{"trouble", found.error().message}};
    if (!found) report.lacks("kernels in " + language->title, found.error().message, false);
  }
}

void DoctorReport::line(const std::string& what, const std::string& words) const {
  output.line(fmt::format("  {:<12} {}", what, words));
}

void DoctorReport::lacks(const std::string& what, const std::string& remedy, bool needed) {
  missing.push_back({{"what", what}, {"remedy", remedy}, {"needed", needed}});
}

void examine_targets(const InstallationPaths& installation, DoctorReport& report) {
  std::set<Target> well;
  for (const Target target : targets())
    if (TargetExamination(installation, report, target).run()) well.insert(target);
  report.output.line("\nContenders, and languages of a compiler of their own");
  examine_contenders(installation, report, well);
  examine_languages(report);
  examine_pytorch(installation, report);
}

// The smallest clock step observed.
double clock_step_s() {
  double least = 1.0;
  for (int i = 0; i < 1000; ++i) {
    const auto before = Clock::now();
    auto after = before;
    while (after == before) after = Clock::now();
    least = std::min(least, in_seconds(after - before));
  }
  return least;
}

// The same computation timed 300 times, about a millisecond each: (third quartile - first) / median, and
// largest / median - 1.
struct Noise {
  double quartiles = 0.0, worst = 0.0;
};
Noise noise_of_the_clock() {
  std::vector<double> times;
  volatile double sink = 0.0;
  for (int run = 0; run < 300; ++run) {
    const auto before = Clock::now();
    double x = 1.0;
    for (int i = 0; i < 300000; ++i) x = x * 0.999999 + 1e-6;
    sink = x;
    times.push_back(in_seconds(Clock::now() - before));
  }
  (void)sink;
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  return {(times[times.size() * 3 / 4] - times[times.size() / 4]) / median, times.back() / median - 1.0};
}

double load_average() {
  double load = 0.0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

}  // namespace

int doctor_command(const Arguments& arguments) {
  bool as_json = false;
  Options options("doctor", "Checks what this machine supports, what is missing, and how to install it.",
                  "cultivar doctor");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  DoctorReport found{output};
  json& facts = found.facts;

  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const double step = clock_step_s(), load = load_average();
  const Noise noise = noise_of_the_clock();
  output.line("This machine");
  found.line("cores", fmt::format("{}, load {:.1f}", cores, load));
  found.line(
      "clock",
      fmt::format(
          "steps of {:.0f} ns; repeating 1 ms of work, the middle half of the times lies within {:.1f} %, "
          "the longest is {:.0f} % above the median",
          step * 1e9, noise.quartiles * 100, noise.worst * 100));
  facts["cores"] = cores;
  facts["load"] = load;
  facts["clock"] = {
      {"step_ns", step * 1e9}, {"quartile_spread", noise.quartiles}, {"worst_spread", noise.worst}};
  if (load > 0.5 * cores)
    found.lacks(
        "a quiet machine",
        fmt::format("the load is {:.1f} on {} cores: timings will vary; stop other programs", load, cores),
        false);
  json limits = json::array();
  for (const TightLimit& limit : tight_limits()) {
    limits.push_back({{"option", limit.option}, {"text", limit.text}, {"fatal", limit.fatal}});
    found.lacks(limit.option, limit.text, limit.fatal);
  }
  const MemoryLimit memory = memory_limit_of_a_process();
  found.line("memory", memory.words);
  facts["limits"] = limits;
  facts["memory"] = {{"bytes", memory.bytes}, {"limit", memory.words}};
  std::error_code trouble;
  fs::create_directories(installation.cache, trouble);
  const auto space = fs::space(installation.cache, trouble);
  json kernels = json::object();
  std::string sizes;
  for (const Target target : targets()) {
    const auto bytes = bytes_below(installation.cache / name_of(target));
    kernels[name_of(target)] = bytes;
    sizes += fmt::format(", {} of {} kernels", bytes_of(static_cast<double>(bytes)), name_of(target));
  }
  found.line("cache", fmt::format("{}, {} free{} (each at most {}: the least recently used go)",
                                  installation.cache.string(), bytes_of(static_cast<double>(space.available)),
                                  sizes, bytes_of(static_cast<double>(most_cached_bytes))));
  facts["cache"] = {{"path", installation.cache.string()},
                    {"free_bytes", space.available},
                    {"kernel_bytes", kernels},
                    {"most_kernel_bytes", most_cached_bytes}};
  if (!trouble && space.available < (1ULL << 30))
    found.lacks("disk space", fmt::format("less than 1 GiB is free in {}", installation.cache.string()),
                false);

  examine_targets(installation, found);

  output.line("\nLanguage models (optional)");
  json keys = json::object(), programs = json::object();
  for (const ProviderFacts& provider : known_providers()) {
    const std::string name = provider.api_key_env;
    if (name.empty() || keys.contains(name)) continue;
    const char* const value = std::getenv(name.c_str());
    keys[name] = value && *value;  // whether it is set, never its value
    found.line("key", fmt::format("{} is {}", name, keys[name] ? "set" : "not set"));
  }
  for (const char* program : {"claude", "codex", "opencode"}) {
    programs[program] = on_path(program);
    if (programs[program])
      found.line("program", fmt::format("{} is available for provider `command`", program));
  }
  facts["language_models"] = {{"keys", keys}, {"programs", programs}};

  facts["missing"] = found.missing;
  output.line(found.missing.empty() ? "\nNothing is missing." : "\nMissing");
  bool usable = true;
  for (const json& each : found.missing) {
    found.line(each["needed"] ? "needed" : "advised",
               fmt::format("{}: {}", each["what"].get<std::string>(), each["remedy"].get<std::string>()));
    usable = usable && !each["needed"].get<bool>();
  }
  output.facts(facts);
  return usable ? 0 : 3;
}

}  // namespace cultivar
