// SPDX-License-Identifier: Apache-2.0
// bench-gate-effects: how soon the gate decides for large effects, and how often it errs there. It plays
// duels with known outcomes on noise that bench-record-noise recorded on an idle machine and beside a load of
// 8, for incumbents from 10 us to 5 s, and prints the rates beside what is demanded. Exit code 1 if a demand
// is missed.
//
//   bench-gate-effects [--noise FILE] [--trials N] [--seed N]
//     --noise FILE   rows of {"load", "work_us", "cores", "us": [...]}
//                    (default experiments/gate_rates/cpu_noise.jsonl)
//
// Measured: the times of equal work in their order, so with their drift, bursts and dependence. Modeled: the
// factor by which a run is slower than the median of its recording is that of a kernel of about that length,
// whichever side runs; runs of 1 s and 5 s are sums of consecutive recorded ones. 1 ms per run is added to
// the device time for inputs and checks. Each trial begins at a random place of a random recording.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/statistics/sequential_test.hpp"
#include "evaluators/verdict/gate.hpp"
#include "gate_noise.hpp"

namespace {

using namespace cultivar;
using bench::Random;

constexpr double run_alpha = 0.01;  // the default of a run
constexpr double overhead = 1e-3;

using Factors = std::vector<double>;  // of consecutive runs, relative to their median

// By load and by length of the run in seconds.
std::map<int, std::map<double, std::vector<Factors>>> read_noise(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(fmt::format("cannot read {} (run from the root, or give --noise FILE)", path));
  std::map<int, std::map<double, std::vector<Factors>>> noise;
  const auto keep = [&](int load, double length, const std::vector<double>& times) {
    const double middle = median(times);
    Factors factors;
    for (const double time : times) factors.push_back(time / middle);
    noise[load][length].push_back(std::move(factors));
  };
  std::string line;
  while (std::getline(file, line)) {
    const auto row = nlohmann::json::parse(line);
    const auto times = row.at("us").get<std::vector<double>>();
    const int load = row.at("load").get<int>();
    keep(load, 1e-6 * row.at("work_us").get<double>(), times);
    if (row.at("work_us").get<double>() < 5e4) continue;
    for (const double length : {1.0, 5.0}) {
      const auto each = static_cast<std::size_t>(std::max(1.0, std::round(length / (1e-6 * median(times)))));
      std::vector<double> sums;
      for (std::size_t i = 0; i + each <= times.size(); i += each) {
        sums.push_back(0.0);
        for (std::size_t j = 0; j < each; ++j) sums.back() += times[i + j];
      }
      keep(load, length, sums);
    }
  }
  return noise;
}

// One machine: each class of lengths goes through its recording.
class Machine {
 public:
  Machine(const std::map<double, std::vector<Factors>>& noise, Random& random) {
    for (const auto& [length, recordings] : noise) {
      const Factors& factors = recordings[random.below(recordings.size())];
      places_.push_back({length, &factors, random.below(factors.size())});
    }
  }
  double time(double seconds) {
    Place* nearest = &places_.front();
    for (Place& place : places_)
      if (std::fabs(std::log(place.length / seconds)) < std::fabs(std::log(nearest->length / seconds)))
        nearest = &place;
    nearest->next = (nearest->next + 1) % nearest->factors->size();
    return seconds * (*nearest->factors)[nearest->next];
  }

 private:
  struct Place {
    double length;
    const Factors* factors;
    std::size_t next;
  };
  std::vector<Place> places_;
};

struct Truth {
  double incumbent = 1e-3;  // seconds of each workload
  double gain = 0.0;        // 0.1 = 10 % faster, on every workload
  std::size_t workloads = 1;
  std::uint64_t comparison = 1;
  bool forced = false;  // the pilots claim a gain of 10 %, so that there is always a batch
};

struct Tally {
  int better = 0, worse = 0, soon = 0;
  std::vector<double> seconds, runs, blocks;
};

// As evaluators/judge/duel.cpp times them: the first run is not counted, and short ones are repeated.
double pilot(Machine& machine, double seconds, double& total) {
  std::vector<double> times;
  double spent = 0.0;
  for (int i = 0; i < 2 || (i < 5 && spent < 0.1); ++i) {
    const double time = machine.time(seconds);
    spent += time + overhead;
    const bool only = i == 0 && time > 0.5;
    if (i > 0 || only) times.push_back(time);
    if (only) break;
  }
  total += spent;
  return median(times);
}

Tally play(const Truth& truth, const std::map<double, std::vector<Factors>>& noise, int trials,
           std::uint64_t seed) {
  Tally tally;
  const double challenger = truth.incumbent / (1.0 + truth.gain);
  const double block = static_cast<double>(truth.workloads) * (truth.incumbent + challenger + 2 * overhead) +
                       truth.incumbent + overhead;
  for (int trial = 0; trial < trials; ++trial) {
    Random random(seed + 1'000'003ULL * static_cast<std::uint64_t>(trial));
    Machine machine(noise, random);
    double total = 0.0;
    std::vector<Pilot> pilots;
    for (std::size_t w = 0; w < truth.workloads; ++w) {
      Pilot p;
      p.challenger_seconds = pilot(machine, challenger, total);
      p.incumbent_seconds = pilot(machine, truth.incumbent, total);
      if (truth.forced) p.challenger_seconds = p.incumbent_seconds / 1.1;
      p.challenger_cost = p.challenger_seconds + overhead;
      p.incumbent_cost = p.incumbent_seconds + overhead;
      pilots.push_back(p);
    }
    GateOptions options;
    options.alpha = AlphaLedger(run_alpha).share(truth.comparison);
    Gate gate(std::vector<std::string>(truth.workloads, "workload"), options,
              seed ^ static_cast<std::uint64_t>(trial), pilots);
    while (!gate.done()) {
      std::vector<double> times;
      double cost = 0.0;
      for (const Slot& slot : gate.next_order()) {
        times.push_back(machine.time(slot.side == Side::challenger ? challenger : truth.incumbent));
        cost += times.back() + overhead;
      }
      gate.add(times, cost);
      total += cost;
    }
    const Decision decision = gate.decision();
    tally.better += decision.verdict == Verdict::better;
    tally.worse += decision.verdict == Verdict::worse;
    tally.soon += decision.verdict == Verdict::better && total <= std::max(10.0, 8.0 * block);
    tally.seconds.push_back(total);
    tally.runs.push_back(static_cast<double>(decision.runs));
    tally.blocks.push_back(decision.blocks);
  }
  return tally;
}

void print_head(const std::string& title) {
  fmt::print("\n{}\n{:>10}{:>10}{:>10}{:>11}{:>9}{:>9}{:>9}{:>8}{:>8}{:>9}{:>9}  {}\n", title, "incumbent",
             "gain", "workloads", "comparison", "better %", "worse %", "in time %", "runs", "blocks",
             "dev. s", "p95", "demand");
}

struct Demand {
  std::optional<double> at_most, soon;
};

bool print_row(const Truth& truth, const Tally& tally, const Demand& demand) {
  const double trials = static_cast<double>(tally.seconds.size());
  const double better = tally.better / trials, soon = tally.soon / trials;
  const bool met = better <= demand.at_most.value_or(1.0) && soon >= demand.soon.value_or(0.0);
  std::string wanted;
  if (demand.at_most) wanted = fmt::format("better <= {:.3g} %: ", 100 * *demand.at_most);
  if (demand.soon) wanted = fmt::format("in time >= {:.3g} %: ", 100 * *demand.soon);
  if (!wanted.empty()) wanted += met ? "met" : "MISSED";
  fmt::print("{:>8.4g} s{:>8.4g} %{:>10}{:>11}{:>9.2f}{:>9.2f}{:>9.1f}{:>8.0f}{:>8.0f}{:>9.3g}{:>9.3g}  {}\n",
             truth.incumbent, 100 * truth.gain, truth.workloads, truth.comparison, 100 * better,
             100 * tally.worse / trials, 100 * soon, median(tally.runs), median(tally.blocks),
             median(tally.seconds), quantile(tally.seconds, 0.95), wanted);
  std::fflush(stdout);
  return met;
}

bool effects(int load, const std::map<double, std::vector<Factors>>& noise, int trials, std::uint64_t seed) {
  print_head(fmt::format("load of {}: gains, {} trials a row; in time = better within 10 s or 8 blocks", load,
                         trials));
  bool met = true;
  for (const double incumbent : {1e-5, 1e-3, 0.1, 1.0, 5.0})
    for (const double gain : {0.1, 0.3, 1.0, 9.0, 99.0})
      for (const auto& [workloads, comparison] :
           std::vector<std::pair<std::size_t, std::uint64_t>>{{1, 1}, {1, 10}, {1, 100}, {4, 1}}) {
        const Truth truth{incumbent, gain, workloads, comparison};
        const std::optional<double> soon = comparison == 1 ? std::optional(0.95) : std::nullopt;
        met &= print_row(truth, play(truth, noise, trials, seed), {{}, soon});
      }
  return met;
}

bool errors(int load, const std::map<double, std::vector<Factors>>& noise, int trials, std::uint64_t seed) {
  bool met = true;
  for (const bool forced : {false, true}) {
    print_head(fmt::format("load of {}: no gain that counts, {} trials a row{}", load, trials,
                           forced ? "; the pilots claim 10 %, so that there is always a batch" : ""));
    for (const double incumbent : {1e-3, 0.1})
      for (const std::size_t workloads : {std::size_t{1}, std::size_t{3}})
        for (const double gain : {0.005, 0.0, -0.005}) {
          Truth truth{incumbent, gain, workloads, 1, forced};
          const double least = gain < 0.0 ? 0.001 : 0.01;
          met &= print_row(truth, play(truth, noise, trials, seed), {least, {}});
        }
  }
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  std::string path = "experiments/gate_rates/cpu_noise.jsonl";
  int trials = 300;
  std::uint64_t seed = 1;
  try {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (i + 1 == argc) throw std::runtime_error(key + " needs a value");
      const std::string value = argv[i + 1];
      if (key == "--noise")
        path = value;
      else if (key == "--trials")
        trials = std::max(1, std::stoi(value));
      else if (key == "--seed")
        seed = std::stoull(value);
      else
        throw std::runtime_error("unknown option " + key);
    }
    fmt::print("seed {}; alpha over the whole run {:.3g}\n", seed, run_alpha);
    bool met = true;
    for (const auto& [load, noise] : read_noise(path)) {
      met &= effects(load, noise, trials, seed);
      met &= errors(load, noise, 4 * trials, seed);
    }
    fmt::print("\n{}\n", met ? "every demand is met" : "a demand is MISSED");
    return met ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-gate-effects: {}\n", error.what());
    return 2;
  }
}
