// SPDX-License-Identifier: Apache-2.0
// bench-gate-rates: measures how often the gate is right. It plays many duels with known outcomes, on noise
// recorded on GPUs, on a model of shared CPU cores, and on this machine's own noise, and prints the rates
// beside the protocol's requirements. Exit code 1 if a requirement is missed on recorded GPU noise, or if
// false promotions exceed it anywhere.
//
//   bench-gate-rates [--noise FILE] [--live SECONDS] [--trials N] [--seed N]
//     --noise FILE     rows of {"set", "workload", "median_us", "p25_us", "p75_us", "min_us"}, one a line
//                      (default experiments/gate_rates/gpu_noise.jsonl)
//     --live SECONDS   of real interleaved timing on this machine, single-threaded (default 0 = none)
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/statistics/sequential_test.hpp"
#include "evaluators/verdict/gate.hpp"
#include "gate_noise.hpp"

namespace {

using namespace cultivar;
using bench::Random;

constexpr double run_alpha = 0.02;  // the default of a run

// A duel whose outcome is known.
struct Truth {
  std::string name;
  std::vector<double> effects;         // true log ratio of each workload; one value = equal for all
  std::uint64_t comparison = 1;        // its number in the run, which determines its alpha
  std::optional<double> at_most = {};  // required maximum share of promotions
  std::optional<double> at_least = {};
};

struct Tally {
  int better = 0, worse = 0, undecided = 0;
  std::vector<double> blocks, seconds;
};

void print_head(const std::string& title) {
  fmt::print("\n{}\n{:<44}{:>9}{:>8}{:>8}{:>8}{:>8}{:>7}{:>8}{:>8}  {}\n", title, "truth", "alpha",
             "better %", "worse %", "undec. %", "blocks", "p95", "dev. s", "p95", "demand");
}

bool print_row(const Truth& truth, double alpha, const Tally& tally) {
  const double trials = static_cast<double>(tally.blocks.size());
  const double rate = tally.better / trials;
  const bool met = rate <= truth.at_most.value_or(1.0) && rate >= truth.at_least.value_or(0.0);
  std::string demand;
  if (truth.at_most) demand = fmt::format("<= {:.3g} %: {}", 100 * *truth.at_most, met ? "met" : "MISSED");
  if (truth.at_least) demand = fmt::format(">= {:.3g} %: {}", 100 * *truth.at_least, met ? "met" : "MISSED");
  fmt::print("{:<44}{:>9.2g}{:>8.2f}{:>8.2f}{:>8.2f}{:>8.0f}{:>7.0f}{:>8.2f}{:>8.2f}  {}\n", truth.name,
             alpha, 100 * rate, 100 * tally.worse / trials, 100 * tally.undecided / trials,
             median(tally.blocks), quantile(tally.blocks, 0.95), median(tally.seconds),
             quantile(tally.seconds, 0.95), demand);
  return met;
}

GateOptions options_for(const Truth& truth) {
  GateOptions options;
  options.alpha = AlphaLedger(run_alpha).share(truth.comparison);
  return options;
}

void count(const Gate& gate, double device_seconds, int blocks, Tally& tally) {
  if (gate.verdict() == Verdict::better)
    ++tally.better;
  else if (gate.verdict() == Verdict::worse)
    ++tally.worse;
  else
    ++tally.undecided;
  tally.blocks.push_back(blocks);
  tally.seconds.push_back(device_seconds);
}

template <class Noise>
Tally simulate(const Truth& truth, const Noise& source, int trials, std::uint64_t seed) {
  const std::vector<std::string> names(source.workloads(), "workload");
  Tally tally;
  for (int trial = 0; trial < trials; ++trial) {
    Random random(seed + 1'000'003ULL * static_cast<std::uint64_t>(trial));
    Noise noise = source;
    noise.start(random);
    const auto pilot = [&](std::size_t workload, double effect) {
      std::vector<double> times;
      for (int i = 0; i < 4; ++i) times.push_back(noise.sample(workload, effect, random));
      return median(times);
    };
    std::vector<Pilot> pilots;
    for (std::size_t w = 0; w < names.size(); ++w) {
      const double challenger = pilot(w, truth.effects[truth.effects.size() == 1 ? 0 : w]);
      const double incumbent = pilot(w, 0.0);
      pilots.push_back({challenger, incumbent, challenger + Noise::overhead, incumbent + Noise::overhead});
    }
    Gate gate(names, options_for(truth), seed ^ static_cast<std::uint64_t>(trial), pilots);
    std::vector<double> seconds;
    double total = 0.0;
    int blocks = 0;
    while (!gate.done()) {
      double cost = blocks++ == 0 ? noise.warm_up() : 0.0;
      seconds.clear();
      for (const Slot& slot : gate.next_order()) {
        const auto workload = static_cast<std::size_t>(slot.workload);
        const double effect = truth.effects[truth.effects.size() == 1 ? 0 : workload];
        seconds.push_back(noise.sample(workload, slot.side == Side::challenger ? effect : 0.0, random));
        cost += seconds.back() + Noise::overhead;
      }
      gate.add(seconds, cost);
      total += cost;
    }
    count(gate, total, blocks, tally);
  }
  return tally;
}

// ---- this machine ----

// A chain of dependent multiply-adds: only the core's clock and other load can change its time. Its start and
// end are volatile, so that the compiler cannot move it past the clock.
void work(std::int64_t rounds) {
  static volatile double ends = 1.0;
  double x = ends;
  for (std::int64_t i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-6;
  ends = x;
}

double timed(std::int64_t rounds) {
  const auto start = std::chrono::steady_clock::now();
  work(rounds);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The shortest of five: an interrupted run must not end the calibration.
double shortest(std::int64_t rounds) {
  double least = timed(rounds);
  for (int i = 1; i < 5; ++i) least = std::min(least, timed(rounds));
  return least;
}

// One round: every kind of kernel once, in random order.
enum Kind { incumbent, itself, control, gain_1, gain_05, loss_05, kinds };
using Round = std::array<double, kinds>;

std::vector<Round> record_live(double seconds, std::uint64_t seed) {
  std::int64_t rounds = 1000;
  while (shortest(rounds) < 0.002) rounds += rounds / 4;
  const auto scaled = [rounds](double ratio) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(rounds) / ratio));
  };
  const std::array<std::int64_t, kinds> lengths = {rounds,       rounds,        rounds,
                                                   scaled(1.01), scaled(1.005), scaled(0.995)};
  Random random(seed);
  std::vector<Round> record;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::array<std::size_t, kinds> order = {0, 1, 2, 3, 4, 5};
    for (std::size_t i = kinds; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    Round round{};
    for (const std::size_t kind : order) round[kind] = timed(lengths[kind]);
    record.push_back(round);
  }
  if (record.size() < 100)
    throw std::runtime_error("--live: too few rounds were recorded, give it more seconds");
  return record;
}

// Each trial replays the record from a random round on, so trials with the same truth share samples: the
// rates describe this one period of time.
Tally replay(const Truth& truth, Kind challenger, const std::vector<Round>& record, int trials,
             std::uint64_t seed) {
  Random random(seed);
  Tally tally;
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t at = random.below(record.size());
    Gate gate({"loop"}, options_for(truth), seed ^ static_cast<std::uint64_t>(trial));
    std::vector<double> seconds;
    double total = 0.0;
    int blocks = 0;
    while (!gate.done()) {
      const Round& round = record[at];
      at = (at + 1) % record.size();
      seconds.clear();
      for (const Slot& slot : gate.next_order()) {
        const Kind kind = slot.side == Side::challenger  ? challenger
                          : slot.side == Side::incumbent ? incumbent
                                                         : control;
        seconds.push_back(round[kind]);
        total += seconds.back();
      }
      gate.add(seconds);
      ++blocks;
    }
    count(gate, total, blocks, tally);
  }
  return tally;
}

bool live(double seconds, int trials, std::uint64_t seed) {
  const std::vector<Round> record = record_live(seconds, seed);
  std::vector<double> times, pairs;
  for (const Round& round : record) {
    times.push_back(round[incumbent]);
    pairs.push_back(std::log(round[incumbent] / round[itself]));
  }
  print_head(fmt::format(
      "live: {} rounds of a {:.2f} ms loop on this machine; itself / itself: p10-p90 {:.4f}-{:.4f}, extremes "
      "{:.3f}-{:.3f}",
      record.size(), 1e3 * median(times), std::exp(quantile(pairs, 0.1)), std::exp(quantile(pairs, 0.9)),
      std::exp(quantile(pairs, 0.0)), std::exp(quantile(pairs, 1.0))));
  bool met = true;
  const auto show = [&](const Truth& truth, Kind kind) {
    met &= print_row(truth, options_for(truth).alpha, replay(truth, kind, record, trials, seed));
  };
  show({"against itself", {}, 1, 0.01, {}}, itself);
  show({"loss of 0.5 %", {}, 1, 0.001, {}}, loss_05);
  show({"gain of 0.5 %, the least that counts", {}, 1, {}, {}}, gain_05);
  show({"gain of 1 %", {}, 1, {}, {}}, gain_1);
  return met;
}

// ---- recorded ----

std::map<std::string, std::vector<bench::RecordedRow>> read_noise(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(fmt::format("cannot read {} (run from the root, or give --noise FILE)", path));
  std::map<std::string, std::vector<bench::RecordedRow>> sets;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_discarded()) throw std::runtime_error(fmt::format("{}:{}: not JSON", path, number));
    const auto us = [&row](const char* key) { return 1e-6 * row.at(key).get<double>(); };
    sets[row.at("set")].push_back(
        {row.at("workload"), us("median_us"), us("p25_us"), us("p75_us"), us("min_us")});
  }
  return sets;
}

bool recorded(const std::string& path, int trials, std::uint64_t seed) {
  bool met = true;
  for (const auto& [set, rows] : read_noise(path)) {
    const bench::GpuNoise noise(rows, 0.5), pessimistic(rows, 0.0);
    print_head(fmt::format("recorded GPU noise, {}: {} workloads", set, rows.size()));
    std::vector<double> one_loses(rows.size(), std::log1p(0.03));
    one_loses.front() = -std::log1p(0.04);
    std::vector<Truth> truths = {{"against itself", {0.0}, 1, 0.01, {}},
                                 {"loss of 0.5 %", {-std::log1p(0.005)}, 1, 0.001, {}},
                                 {"gain of 0.5 %, the least that counts", {std::log1p(0.005)}, 1, 0.01, {}},
                                 {"gain of 3 % but one workload loses 4 %", one_loses, 1, 0.05, {}},
                                 {"gain of 1 %, 1st comparison", {std::log1p(0.01)}, 1, {}, 0.95},
                                 {"gain of 1 %, 10th comparison", {std::log1p(0.01)}, 10, {}, {}},
                                 {"gain of 1 %, 100th comparison", {std::log1p(0.01)}, 100, {}, {}},
                                 {"gain of 1 %, 1000th comparison", {std::log1p(0.01)}, 1000, {}, {}},
                                 {"gain of 2 %, 100th comparison", {std::log1p(0.02)}, 100, {}, {}}};
    for (const Truth& truth : truths)
      met &= print_row(truth, options_for(truth).alpha, simulate(truth, noise, trials, seed));
    const Truth alone{"gain of 1 %, no noise shared by the sides", {std::log1p(0.01)}};
    print_row(alone, options_for(alone).alpha, simulate(alone, pessimistic, trials, seed));
  }
  return met;
}

bool shared_cpu(int trials, std::uint64_t seed) {
  const bench::SharedCpuNoise noise;
  Random random(seed);
  std::vector<double> pairs, medians;
  bench::SharedCpuNoise playing = noise;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> a, b;
    for (int j = 0; j < 15; ++j) {
      a.push_back(playing.sample(0, 0.0, random));
      b.push_back(playing.sample(0, 0.0, random));
    }
    pairs.push_back(a.front() / b.front());
    medians.push_back(median(a) / median(b));
  }
  print_head(fmt::format(
      "modelled shared CPU cores, 4 workloads; pairs p10-p90 {:.2f}-{:.2f}, medians of 15 {:.2f}-{:.2f}",
      quantile(pairs, 0.1), quantile(pairs, 0.9), quantile(medians, 0.1), quantile(medians, 0.9)));
  bool met = true;
  for (const Truth& truth :
       std::vector<Truth>{{"against itself", {0.0}, 1, 0.01, {}},
                          {"loss of 0.5 %", {-std::log1p(0.005)}, 1, 0.001, {}},
                          {"gain of 0.5 %, the least that counts", {std::log1p(0.005)}, 1, 0.01, {}},
                          {"gain of 1 %", {std::log1p(0.01)}, 1, {}, {}},
                          {"gain of 2 %", {std::log1p(0.02)}, 1, {}, {}},
                          {"gain of 4 %", {std::log1p(0.04)}, 1, {}, {}},
                          {"gain of 10 %", {std::log1p(0.1)}, 1, {}, {}},
                          {"gain of 10 %, 100th comparison", {std::log1p(0.1)}, 100, {}, {}}})
    met &= print_row(truth, options_for(truth).alpha, simulate(truth, noise, trials, seed));
  return met;
}

}  // namespace

int main(int argc, char** argv) {
  std::string noise = "experiments/gate_rates/gpu_noise.jsonl";
  double live_seconds = 0.0;
  int trials = 1000;
  std::uint64_t seed = 1;
  try {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (i + 1 == argc) throw std::runtime_error(key + " needs a value");
      const std::string value = argv[i + 1];
      if (key == "--noise")
        noise = value;
      else if (key == "--live")
        live_seconds = std::stod(value);
      else if (key == "--trials")
        trials = std::max(1, std::stoi(value));
      else if (key == "--seed")
        seed = std::stoull(value);
      else
        throw std::runtime_error("unknown option " + key);
    }
    fmt::print("{} trials a row, seed {}; alpha over the whole run {:.3g}\n", trials, seed, run_alpha);
    bool met = recorded(noise, trials, seed);
    met &= shared_cpu(trials, seed);
    if (live_seconds > 0.0) met &= live(live_seconds, trials, seed);
    fmt::print("\n{}\n", met ? "every demand is met" : "a demand is MISSED");
    return met ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-gate-rates: {}\n", error.what());
    return 2;
  }
}
