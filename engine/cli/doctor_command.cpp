// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "engine/cli/commands.hpp"
#include "engine/cli/doctor_targets.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/resource_limits.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

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
