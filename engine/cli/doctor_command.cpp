#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/step_line.hpp"
#include "engine/cli/trouble.hpp"
#include "engine/cli/workbench.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/targets/cuda/known_devices.hpp"
#include "evaluators/targets/cuda/visible_gpu.hpp"
#include "evaluators/worker/contender_trial.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;
namespace fs = std::filesystem;

double seconds_of(SteadyClock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// The smallest step that the clock was seen to make.
double clock_step_s() {
  double least = 1.0;
  for (int i = 0; i < 1000; ++i) {
    const auto before = SteadyClock::now();
    auto after = before;
    while (after == before) after = SteadyClock::now();
    least = std::min(least, seconds_of(after - before));
  }
  return least;
}

// The same arithmetic timed 300 times, about a millisecond each: (third quartile - first) / median, and the
// same for the largest.
struct Noise {
  double quartiles = 0.0, worst = 0.0;
};
Noise noise_of_the_clock() {
  std::vector<double> times;
  volatile double sink = 0.0;
  for (int run = 0; run < 300; ++run) {
    const auto before = SteadyClock::now();
    double x = 1.0;
    for (int i = 0; i < 300000; ++i) x = x * 0.999999 + 1e-6;
    sink = x;
    times.push_back(seconds_of(SteadyClock::now() - before));
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

json facts_of(const DeviceInfo& info) {
  return {{"device", info.description},
          {"isolation", info.isolation},
          {"facts", json(info.facts)},
          {"ceilings",
           {{"flops", info.ceilings.flops},
            {"bytes_per_second", info.ceilings.bytes_per_second},
            {"cached_bytes_per_second", info.ceilings.cached_bytes_per_second},
            {"handshake_s", info.ceilings.handshake_s}}}};
}

std::string ceilings_in_words(const Ceilings& c) {
  return fmt::format(
      "{:.1f} GFLOPS, {:.1f} GB/s from memory, {:.1f} GB/s from cache; an empty kernel takes {}",
      c.flops / 1e9, c.bytes_per_second / 1e9, c.cached_bytes_per_second / 1e9, time_of(c.handshake_s * 1e6));
}

}  // namespace

int doctor_command(const Arguments& arguments) {
  bool as_json = false;
  Options options("doctor", "What this machine offers to Cultivar, what is missing, and how to get it.",
                  "cultivar doctor");
  options.flag("--json", as_json, "facts as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const House house = find_house();
  json facts, missing = json::array();
  const auto report = [&](const std::string& what, const std::string& words) {
    output.line(fmt::format("  {:<12} {}", what, words));
  };
  const auto lacks = [&](const std::string& what, const std::string& remedy, bool needed) {
    missing.push_back({{"what", what}, {"remedy", remedy}, {"needed", needed}});
  };

  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const double step = clock_step_s(), load = load_average();
  const Noise noise = noise_of_the_clock();
  output.line("This machine");
  report("cores", fmt::format("{}, load {:.1f}", cores, load));
  report(
      "clock",
      fmt::format("steps of {:.0f} ns; the same millisecond of work varies by {:.1f} % (half of the runs), "
                  "{:.0f} % at worst",
                  step * 1e9, noise.quartiles * 100, noise.worst * 100));
  facts["cores"] = cores;
  facts["load"] = load;
  facts["clock"] = {
      {"step_ns", step * 1e9}, {"quartile_spread", noise.quartiles}, {"worst_spread", noise.worst}};
  if (load > 0.5 * cores)
    lacks("a quiet machine",
          fmt::format("the load is {:.1f} on {} cores: times will vary; stop what else is running", load,
                      cores),
          false);
  std::error_code trouble;
  fs::create_directories(house.cache, trouble);
  const auto space = fs::space(house.cache, trouble);
  report("cache",
         fmt::format("{}, {} free", house.cache.string(), bytes_of(static_cast<double>(space.available))));
  facts["cache"] = {{"path", house.cache.string()}, {"free_bytes", space.available}};
  if (!trouble && space.available < (1ULL << 30))
    lacks("disk space", fmt::format("less than 1 GiB is free in {}", house.cache.string()), false);

  output.line("\nThe cpu target");
  facts["cpu"] = nullptr;
  // Workers want a task before they answer: any will do.
  const auto services_for = [&](TargetKind target) {
    const std::vector<std::string> tasks = task_names(house);
    if (tasks.empty()) throw MissingError("there is no task below configs/tasks");
    const std::string usual = "attention_forward";
    const bool has_usual = std::find(tasks.begin(), tasks.end(), usual) != tasks.end();
    ServiceOptions services;
    services.target = target;
    services.programs = house.programs;
    services.cache = house.cache;
    services.task_folder = find_task(house, has_usual ? usual : tasks.front());
    return services;
  };
  try {
    const ServiceOptions services = services_for(TargetKind::cpu);
    CompileService compiler(services);
    const CompilerInfo compiling = compiler.compiler_info();
    report("compiler", compiling.identity.substr(0, compiling.identity.find(" -")));
    report("", compiling.isolation);
    if (!compiling.weakness.empty()) lacks("walls around the compiler", compiling.weakness, false);
    DeviceService device(services);
    const DeviceInfo info = [&] {
      const StepLine line("measuring this machine's ceilings");
      return must(device.info());
    }();
    report("device", info.description);
    report("isolation", info.isolation);
    if (!info.weakness.empty()) lacks("isolation", info.weakness, false);
    report("ceilings", ceilings_in_words(info.ceilings));
    facts["cpu"] = facts_of(info);
    facts["cpu"]["compiler"] = compiling.identity;
    facts["cpu"]["compiler_isolation"] = compiling.isolation;
  } catch (const std::exception& error) {
    report("unusable", error.what());
    lacks("the cpu target", error.what(), true);
  }
  if (!on_path("g++")) lacks("g++", "apt-get install g++", true);
  if (!on_path("bwrap"))
    lacks("bubblewrap", "apt-get install bubblewrap: without it kernels are kept in by fewer walls", false);

  output.line("\nThe cuda target");
  const bool cuda = fs::exists(house.programs / "cultivar-worker-cuda", trouble);
  facts["cuda"] = cuda;
  facts["cuda_compiler"] = facts["cuda_device"] = facts["cuda_trouble"] = nullptr;
  facts["cuda_devices"] = json::array();
  if (!cuda) {
    facts["cuda_trouble"] = "this build has no CUDA worker";
    report("absent", "this build has no CUDA worker; the cpu target needs none");
  } else {
    try {
      ServiceOptions services = services_for(TargetKind::cuda);
      const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES");
      // Each in a worker that sees it alone.
      const int gpus = std::max(1, visible_gpus(listed ? std::optional<std::string>(listed) : std::nullopt));
      for (int number = 0; number < gpus; ++number) {
        services.device = number;
        const auto info = [&] {
          const StepLine line(fmt::format("looking at GPU {}, and measuring its ceilings", number));
          return DeviceService(services).info();
        }();
        std::string words = info ? info->description : info.error().message;
        const std::string name = fmt::format("GPU {}", number);
        if (words.starts_with(name + ": ")) words.erase(0, name.size() + 2);
        report(name, words);
        facts["cuda_devices"].push_back(info ? facts_of(*info) : json{{"trouble", info.error().message}});
        if (!info) {
          if (facts["cuda_trouble"].is_null()) facts["cuda_trouble"] = info.error().message;
          lacks(gpus > 1 ? name : "a GPU", words, false);
          continue;
        }
        report("isolation", info->isolation);
        report("ceilings", ceilings_in_words(info->ceilings));
        if (!facts["cuda_device"].is_null()) continue;
        services.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
        facts["cuda_device"] = facts_of(*info);
      }
      services.device = 0;
      const CompilerInfo compiling = CompileService(services).compiler_info();
      report("compiler", compiling.identity.substr(0, compiling.identity.find(" --")));
      report("", compiling.isolation);
      if (!compiling.weakness.empty()) lacks("walls around NVRTC", compiling.weakness, false);
      facts["cuda_compiler"] = compiling.identity;
      facts["cuda_compiler_isolation"] = compiling.isolation;
    } catch (const std::exception& error) {
      report("unusable", error.what());
      facts["cuda_trouble"] = error.what();
      lacks("the cuda target", error.what(), false);
    }
  }

  facts["contenders"] = json::object();
  for (const KnownContender& known : known_contenders(house.programs)) {
    if (!cuda || known.target != "cuda") continue;
    const auto version = [&]() -> Expected<std::string> {
      if (known.library.empty()) return failure("find contender", known.absent);
      if (facts["cuda_device"].is_null())
        return failure("find contender", "it was not tried: there is no GPU");
      const StepLine line("loading the contender " + known.name);
      try {
        return try_contender(house.programs, known.library, find_task(house, known.task), TargetKind::cuda);
      } catch (const std::exception& error) {  // its task is not here
        return failure("find contender", error.what());
      }
    }();
    report("contender", fmt::format("{}: {}", known.name, version ? *version : version.error().message));
    facts["contenders"][known.name] =
        version ? json{{"version", *version}} : json{{"trouble", version.error().message}};
    if (!version && (known.library.empty() || !facts["cuda_device"].is_null()))
      lacks("the contender " + known.name, version.error().message, false);
  }
  output.line("\nLanguage models (a search without them needs none)");
  json keys = json::object(), programs = json::object();
  for (const ProviderFacts& provider : known_providers()) {
    const std::string name = provider.api_key_env;
    if (name.empty() || keys.contains(name)) continue;
    const char* const value = std::getenv(name.c_str());
    keys[name] = value && *value;  // whether, and never what
    report("key", fmt::format("{} is {}", name, keys[name] ? "set" : "not set"));
  }
  for (const char* program : {"claude", "codex", "opencode"}) {
    programs[program] = on_path(program);
    if (programs[program]) report("program", fmt::format("{} can be asked by provider command", program));
  }
  facts["language_models"] = {{"keys", keys}, {"programs", programs}};

  facts["missing"] = missing;
  output.line(missing.empty() ? "\nNothing is missing." : "\nMissing");
  bool usable = true;
  for (const json& each : missing) {
    report(each["needed"] ? "needed" : "advised",
           fmt::format("{}: {}", each["what"].get<std::string>(), each["remedy"].get<std::string>()));
    usable = usable && !each["needed"].get<bool>();
  }
  output.facts(facts);
  return usable ? 0 : 3;
}

}  // namespace cultivar
