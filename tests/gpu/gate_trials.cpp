// SPDX-License-Identifier: Apache-2.0
// Measures the gate's errors on this GPU, under the conditions of a search: a kernel against itself, which
// must not be promoted, and against itself with extra work added, which is a gain of 1 % and must be found.
//
//   bench-gpu-gate TASK_FOLDER VARIANT[@TUNABLE=VALUE...] SELF WORKLOADS PLANTED WORKLOADS OUT_FILE [SECONDS]
//
// WORKLOADS is a set of the task, or its first N workloads: SET:N. Every decision is a line of OUT_FILE. The
// extra work is a second kernel in the plan that loops for 1 % of the time of the first, minus the gap
// between two kernels; the gap and the time of one iteration are measured first. SECONDS limits the total
// time; omitted trials are reported.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/worker/services.hpp"
#include "support/places.hpp"

using namespace cultivar;

namespace {

constexpr double kGain = 0.01, kAlpha = 0.0099;  // a run's first comparison, see the gate's ledger

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<Workload> workloads_of(const Task& task, const std::string& text) {
  const std::size_t colon = text.find(':');
  const WorkloadSet* set = task.workloads(text.substr(0, colon));
  if (set == nullptr) throw InputError(fmt::format("task {} has no workloads {}", task.name, text));
  std::vector<Workload> all = set->workloads;
  if (colon != std::string::npos)
    all.resize(std::min<std::size_t>(all.size(), std::strtoul(text.c_str() + colon + 1, nullptr, 10)));
  return all;
}

// The number of loop iterations of the plan's last kernel for each workload.
std::string with_extra(const std::string& source, const std::vector<Workload>& workloads,
                       const std::vector<double>& turns) {
  std::string cost = "0";
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    std::string is_it;
    for (const auto& [dimension, value] : workloads[w].values)
      if (dimension != "scale")
        is_it += fmt::format("{}{} == {}", is_it.empty() ? "" : " && ", dimension, value);
    cost = fmt::format("({} ? {:.0f} : {})", is_it, turns[w], cost);
  }
  std::string made = source;
  made.insert(source.find("---*/"), fmt::format(R"(  - kernel: planted_extra
    grid: [1, 1, 1]
    block: [32, 1, 1]
    args: [o, {{value: "{}", type: i32}}]
)",
                                                cost));
  return made + R"(
extern "C" __global__ void planted_extra(void* o, int turns) {
  unsigned x = threadIdx.x;
  for (int i = 0; i < turns; ++i) x = x * x + 12345u;
  if (x == 0x9e3779b9u) {  // keeps the compiler from removing the loop; has no effect
    volatile unsigned* const word = static_cast<unsigned*>(o);
    *word = *word;
  }
}
)";
}

class Trials {
 public:
  Trials(const std::string& folder, const std::string& out) : task_(load_task(folder)), out_(out) {
    options_.target = target_named("cuda");
    options_.programs = testing::programs_folder();
    options_.cache = testing::tests_cache();
    options_.task_folder = folder;
    options_.compile_workers = 4;
    device_ = std::make_unique<DeviceService>(options_);
    const auto info = device_->info();
    if (!info) throw MissingError(info.error().message);
    fmt::print("{}\n", info->description);
    options_.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    compiler_ = std::make_unique<CompileService>(options_);
  }
  const Task& task() const { return task_; }

  Compiled compiled(const Variant& variant, const std::vector<Workload>& workloads) {
    auto made = compiler_->compile(variant, workloads);
    if (!made) throw InputError(made.error().reason + "\n" + made.error().diagnostics);
    return std::move(*made);
  }

  std::vector<double> medians_us(const Compiled& compiled, const std::vector<Workload>& workloads) {
    EvaluateRequest request;
    request.variant = compiled;
    request.workloads = workloads;
    const auto e = device_->evaluate(request);
    if (!e) throw MissingError(e.error().message);
    if (!e->measured()) throw InputError(e->reason + "\n" + e->diagnostics);
    std::vector<double> all;
    for (const WorkloadResult& w : e->workloads) all.push_back(w.median_us);
    return all;
  }

  GateReport duel(const std::string& what, const Compiled& challenger, const Compiled& incumbent,
                  const std::vector<Workload>& workloads, int number) {
    GateRequest request;
    request.challenger = challenger;
    request.incumbent = request.control = incumbent;
    request.workloads = workloads;
    request.options.alpha = kAlpha;
    request.options.max_device_seconds = 20.0;
    request.seed = static_cast<std::uint64_t>(number) + 1;
    auto report = device_->gate(request);
    if (!report) throw MissingError(report.error().message);
    for (const std::string& trouble : report->trouble) fmt::print("trouble: {}\n", trouble);
    nlohmann::json line = {{"trial", what}, {"decision", report->decision}, {"seconds", report->seconds}};
    line["challenger_seconds"] = report->challenger_seconds;
    line["incumbent_seconds"] = report->incumbent_seconds;
    out_ << line.dump() << std::endl;
    return std::move(*report);
  }

 private:
  Task task_;
  std::ofstream out_;
  ServiceOptions options_;
  std::unique_ptr<DeviceService> device_;
  std::unique_ptr<CompileService> compiler_;
};

void tell(const char* what, int made, int wanted, int better, int worse, const std::vector<double>& seconds,
          const std::vector<double>& ratios) {
  if (made == 0) return;
  const Quartiles time = quartiles(seconds), ratio = quartiles(ratios);
  fmt::print(
      "{}: {} of {} trials, better {} ({:.1f} %), worse {}, undecided {}; device seconds {:.2f} [{:.2f}, "
      "{:.2f}], ratio "
      "{:+.3f} % [{:+.3f}, {:+.3f}]\n",
      what, made, wanted, better, 100.0 * better / made, worse, made - better - worse, time.median, time.q1,
      time.q3, 100 * std::expm1(ratio.median), 100 * std::expm1(ratio.q1), 100 * std::expm1(ratio.q3));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    fmt::print(stderr,
               "usage: {} TASK_FOLDER VARIANT[@TUNABLE=VALUE,...] SELF WORKLOADS PLANTED WORKLOADS OUT_FILE "
               "[SECONDS]\n",
               argv[0]);
    return 2;
  }
  try {
    const double start = now(), limit = argc > 8 ? std::atof(argv[8]) : 1e9;
    Trials trials(argv[1], argv[7]);
    const std::string text = argv[2];
    const std::size_t at = text.find('@');
    Variant variant = load_variant(text.substr(0, at), trials.task());
    Configuration wanted = variant.configuration;
    for (std::size_t from = at; from != std::string::npos; from = text.find(',', from + 1)) {
      const std::size_t equals = text.find('=', from);
      wanted[text.substr(from + 1, equals - from - 1)] = std::atol(text.c_str() + equals + 1);
    }
    variant = load_variant(text.substr(0, at), trials.task(), wanted);
    const auto rounds = [&](const char* what, int count, const Compiled& challenger,
                            const Compiled& incumbent, const std::vector<Workload>& workloads, double until) {
      int made = 0, better = 0, worse = 0;
      std::vector<double> seconds, ratios;
      for (; made < count && now() - start < until; ++made) {
        const GateReport report = trials.duel(what, challenger, incumbent, workloads, made);
        better += report.decision.verdict == Verdict::better;
        worse += report.decision.verdict == Verdict::worse;
        seconds.push_back(report.decision.device_seconds);
        ratios.push_back(report.decision.log_ratio);
        if (made % 20 == 19) tell(what, made + 1, count, better, worse, seconds, ratios);
      }
      tell(what, made, count, better, worse, seconds, ratios);
      return made;
    };

    const std::vector<Workload> planted = workloads_of(trials.task(), argv[6]);
    const Compiled plain = trials.compiled(variant, planted);
    const std::vector<double> us = trials.medians_us(plain, planted);
    const auto extra = [&](const std::vector<double>& turns) {
      const auto made = make_variant(with_extra(variant.source, planted, turns), trials.task(), wanted);
      if (!made) throw InputError(made.error().text());
      return trials.compiled(*made, planted);
    };
    constexpr double kTurns = 50'000;
    const std::vector<double> gap = trials.medians_us(extra(std::vector<double>(us.size(), 0.0)), planted);
    const std::vector<double> long_one =
        trials.medians_us(extra(std::vector<double>(us.size(), kTurns)), planted);
    const std::vector<double> again = trials.medians_us(plain, planted);
    std::vector<double> turns;
    for (std::size_t w = 0; w < us.size(); ++w) {
      const double base = 0.5 * (us[w] + again[w]);
      const double between = std::clamp(gap[w] - base, 0.0, 6.0);
      const double turn = std::max(1e-4, (long_one[w] - base - between) / kTurns);
      turns.push_back(std::max(0.0, (kGain * base - between) / turn));
      fmt::print(
          "{}: {:.1f} us; a second kernel costs {:.2f} us and {:.2f} ns a turn, of which it takes {:.0f}\n",
          planted[w].name, base, between, 1e3 * turn, turns.back());
    }
    const Compiled slower = extra(turns);
    rounds("planted", std::atoi(argv[5]), plain, slower, planted, 0.55 * limit);
    const std::vector<Workload> self = workloads_of(trials.task(), argv[4]);
    const Compiled own = trials.compiled(variant, self);
    rounds("itself", std::atoi(argv[3]), own, own, self, limit);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
