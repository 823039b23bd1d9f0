// SPDX-License-Identifier: Apache-2.0
// Measures how fast the tuner finds good configurations of recorded spaces (Kernel Tuner's cache format, JSON
// or gzip JSON).
//   bench-tune-spaces [--seeds 30] [--first-seed 1] [--evaluations 200] [--threads 2] [--set name=value]
//   [--scale] FILE...
// A failed configuration counts as an evaluation; only recorded configurations are feasible. Configurations
// with the same `kernel` (a text) are one kernel: the first one that is proposed is measured, the others are
// told as its duplicates. "refused" is the share of the proposals that failed or were duplicates, of each 100
// in turn.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "operators/tune/tuner.hpp"

namespace {

using cultivar::Point;
using Clock = std::chrono::steady_clock;

struct Recorded {
  std::string name;
  cultivar::Space space;
  std::unordered_map<Point, std::optional<double>, cultivar::PointHash> costs;
  std::unordered_map<Point, std::string, cultivar::PointHash> kernels;  // where it is known
  double optimum = std::numeric_limits<double>::infinity();
};

std::string read_text(const std::string& path) {
  if (!path.ends_with(".gz")) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot open " + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string quoted = "'";  // for the shell: a quote inside closes, escapes and opens again
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  FILE* pipe = popen(("exec gzip -dc -- " + quoted + "'").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start gzip");
  std::string text, part(1 << 20, '\0');
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe)) text.append(part, 0, count);
  if (pclose(pipe) != 0) throw std::runtime_error("gzip could not read " + path);
  return text;
}

Recorded load(const std::string& path) {
  const auto json = nlohmann::json::parse(read_text(path));
  Recorded recorded;
  recorded.name = std::filesystem::path(path).filename().string();
  recorded.name = recorded.name.substr(0, recorded.name.find(".json"));
  std::vector<std::string> keys = json.at("tune_params_keys");
  std::vector<std::map<std::string, int>> codes;  // dumped value -> index
  for (const std::string& key : keys) {
    cultivar::Knob knob{key, {}, true};
    std::map<std::string, int> code;
    for (const auto& value : json.at("tune_params").at(key)) {
      const int index = static_cast<int>(knob.values.size());
      code[value.dump()] = index;
      if (value.is_number() || value.is_boolean()) {
        knob.values.push_back(value.is_boolean() ? double(value.get<bool>()) : value.get<double>());
      } else {
        knob.ordinal = false;
        knob.values.push_back(index);
      }
    }
    recorded.space.knobs.push_back(std::move(knob));
    codes.push_back(std::move(code));
  }
  for (const auto& [text, record] : json.at("cache").items()) {
    Point point;
    for (std::size_t k = 0; k < keys.size(); ++k) point.push_back(codes[k].at(record.at(keys[k]).dump()));
    const auto& time = record.at("time");
    std::optional<double> cost;
    if (time.is_number() && std::isfinite(time.get<double>()) && time.get<double>() > 0) {
      cost = time.get<double>();
      recorded.optimum = std::min(recorded.optimum, *cost);
    }
    recorded.costs[point] = cost;
    if (record.contains("kernel")) recorded.kernels[point] = record.at("kernel");
  }
  recorded.space.feasible = [&costs = recorded.costs](std::span<const int> p) {
    return costs.contains(Point(p.begin(), p.end()));
  };
  return recorded;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  if (values[low] == values[high]) return values[low];
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

// CPU time of this thread: the cost of a proposal, without the time spent waiting for a busy machine.
double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

struct Race {
  std::vector<double> best;  // after each evaluation
  std::vector<double> proposal_ms;
  std::vector<int> failed, repeated;  // in each 100 evaluations
};

Race run(const Recorded& recorded, std::uint64_t seed, int evaluations,
         const cultivar::TunerOptions& options) {
  cultivar::Space space = recorded.space;
  space.feasible = [&costs = recorded.costs](std::span<const int> p) {
    return costs.contains(Point(p.begin(), p.end()));
  };
  cultivar::Tuner tuner(std::move(space), seed, options);
  Race race;
  std::unordered_map<std::string, Point> met;  // kernels
  double best = std::numeric_limits<double>::infinity();
  for (int e = 0; e < evaluations; ++e) {
    const auto start = Clock::now();
    const auto point = tuner.propose();
    if (!point) break;
    const auto cost = recorded.costs.at(*point);
    std::optional<Point> twin;
    if (const auto kernel = recorded.kernels.find(*point); cost && kernel != recorded.kernels.end())
      if (const auto [first, fresh] = met.try_emplace(kernel->second, *point); !fresh) twin = first->second;
    tuner.observe(*point, cost, true, twin);
    race.failed.resize(static_cast<std::size_t>(e / 100 + 1));
    race.repeated.resize(race.failed.size());
    race.failed.back() += !cost;
    race.repeated.back() += twin.has_value();
    race.proposal_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    if (cost) best = std::min(best, *cost);
    race.best.push_back(best / recorded.optimum);
  }
  race.best.resize(static_cast<std::size_t>(evaluations), best / recorded.optimum);
  return race;
}

// A space of 12 knobs (about 10^10 points) with constraints and failures, to time proposals after many
// observations.
void time_proposals(const cultivar::TunerOptions& options) {
  cultivar::Space space;
  for (int k = 0; k < 12; ++k) {
    cultivar::Knob knob{"k" + std::to_string(k), {}, k % 4 != 3};
    for (int v = 0; v < 4 + k % 5; ++v)
      knob.values.push_back(k % 2 == 0 ? double(1 << v) : double(v + 1) * 16);
    space.knobs.push_back(std::move(knob));
  }
  space.feasible = [](std::span<const int> p) { return p[0] + p[1] + p[2] <= 9; };
  cultivar::Tuner tuner(std::move(space), 1, options);
  std::vector<double> late, processor;
  for (int e = 0; e < 1100; ++e) {
    const auto start = Clock::now();
    const double before = processor_ms();
    const Point point = tuner.propose().value();
    double cost = 1;
    for (std::size_t k = 0; k < point.size(); ++k)
      cost *= 1 + 0.1 * std::pow(point[k] - 2.0, 2) + 0.05 * double(k);
    tuner.observe(point, point[4] + point[5] > 8 ? std::nullopt : std::optional(cost));
    if (e < 1000) continue;
    late.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    processor.push_back(processor_ms() - before);
  }
  std::printf(
      "propose + observe at 1000 observations of 10^10 points: median %.1f ms, p95 %.1f ms, max %.1f ms\n",
      quantile(late, 0.5), quantile(late, 0.95), quantile(late, 1));
  std::printf("  of processor time: median %.1f ms, p95 %.1f ms, max %.1f ms\n", quantile(processor, 0.5),
              quantile(processor, 0.95), quantile(processor, 1));
}

}  // namespace

int main(int argc, char** argv) try {
  int seeds = 30, first_seed = 1, evaluations = 200, threads = 2;
  bool scale = false;
  cultivar::TunerOptions options;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return std::stoi(i + 1 < argc ? argv[++i] : ""); };
    if (word == "--seeds")
      seeds = number();
    else if (word == "--first-seed")
      first_seed = number();
    else if (word == "--evaluations")
      evaluations = number();
    else if (word == "--threads")
      threads = number();
    else if (word == "--scale")
      scale = true;
    else if (word == "--set") {
      const std::string pair = argv[++i];
      const std::string name = pair.substr(0, pair.find('='));
      const double value = std::stod(pair.substr(pair.find('=') + 1));
      if (name == "initial")
        options.initial = int(value);
      else if (name == "training_cap")
        options.training_cap = int(value);
      else if (name == "candidates")
        options.candidates = int(value);
      else if (name == "trees")
        options.trees = int(value);
      else if (name == "rankings")
        options.rankings = value != 0;
      else if (name == "avoids_refusals")
        options.avoids_refusals = value != 0;
      else
        throw std::runtime_error("no option " + name);
    } else
      paths.push_back(word);
  }
  std::vector<int> marks{50, 100, 200, 400, 800};
  std::erase_if(marks, [&](int mark) { return mark > evaluations; });
  std::vector<double> log_sum(marks.size(), 0), mean_log(marks.size(), 0);
  std::vector<double> all_ms;
  for (const std::string& path : paths) {
    const Recorded recorded = load(path);
    std::vector<Race> races(static_cast<std::size_t>(seeds));
    std::atomic<int> next{0};
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t)
      pool.emplace_back([&] {
        for (int s = next++; s < seeds; s = next++)
          races[static_cast<std::size_t>(s)] =
              run(recorded, static_cast<std::uint64_t>(first_seed + s), evaluations, options);
      });
    for (auto& thread : pool) thread.join();
    std::vector<double> ms;
    for (const Race& race : races) ms.insert(ms.end(), race.proposal_ms.begin(), race.proposal_ms.end());
    all_ms.insert(all_ms.end(), ms.begin(), ms.end());
    std::printf("%-28s", recorded.name.c_str());
    for (std::size_t m = 0; m < marks.size(); ++m) {
      std::vector<double> ratios;
      for (const Race& race : races) ratios.push_back(race.best[static_cast<std::size_t>(marks[m] - 1)]);
      const double median = quantile(ratios, 0.5);
      log_sum[m] += std::log(median);
      for (double r : ratios) mean_log[m] += std::log(std::min(r, 1e3)) / seeds;
      std::printf("  %d: %.4f [%.4f, %.4f]", marks[m], median, quantile(ratios, 0.25),
                  quantile(ratios, 0.75));
    }
    std::printf("  %.1f ms\n", quantile(ms, 0.5));
    for (std::size_t part = 0; part * 100 < static_cast<std::size_t>(evaluations); ++part) {
      double failed = 0, repeated = 0, most = 0;
      for (const Race& race : races) {
        if (part >= race.failed.size()) continue;
        failed += race.failed[part];
        repeated += race.repeated[part];
        most = std::max(most, double(race.failed[part] + race.repeated[part]));
      }
      std::printf("  proposals %zu to %zu: %.1f %% failed, %.1f %% duplicates; the worst seed %.0f of 100\n",
                  100 * part + 1, 100 * part + 100, failed / seeds, repeated / seeds, most);
    }
    std::fflush(stdout);
  }
  if (!paths.empty()) {
    std::printf("%-28s", "geometric mean");
    for (std::size_t m = 0; m < marks.size(); ++m)
      std::printf("  %d: %.4f (of all seeds %.4f)", marks[m], std::exp(log_sum[m] / double(paths.size())),
                  std::exp(mean_log[m] / double(paths.size())));
    std::printf("\npropose + observe: median %.1f ms, p95 %.1f ms, max %.1f ms\n", quantile(all_ms, 0.5),
                quantile(all_ms, 0.95), quantile(all_ms, 1));
  }
  if (scale) time_proposals(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
