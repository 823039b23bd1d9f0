// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/batches.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "evaluators/statistics/quantiles.hpp"

namespace cultivar {
namespace {

constexpr std::array shares = {1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 16};  // of each level, by look
constexpr int most_looks = static_cast<int>(shares.size());
constexpr double plain = 0.03;          // a log ratio of the pilots that a batch may show
constexpr double ample_seconds = 2.0;   // up to this cost a batch has a run to spare ...
constexpr double short_seconds = 0.25;  // ... and below this it is enlarged,
constexpr double most_enlarged = 4.0;   // at most by this factor
// A dearer batch for a moderate difference, which a disturbed run may hide, is enlarged up to the cost of
// some blocks of pairs.
constexpr double moderate = 0.25;
constexpr double most_blocks = 7.7, most_of_limit = 0.8, most_enlarged_dear = 1.75;
constexpr double tie = 1e-9;  // log ratios nearer than this are equal: rounding errors must not break ties
constexpr int most_enlarged_runs = 40;  // of the side with fewer runs
constexpr int most_runs = 240;

double log_ratio(const Pilot& pilot) {
  return std::log(pilot.incumbent_seconds / pilot.challenger_seconds);
}

// The mean over the workloads of what the pilots promise beyond the least gain that counts; 0 if they differ
// in its sign, because only batches that agree decide.
double promise(const GateOptions& options, std::span<const Pilot> pilots) {
  double sum = 0.0;
  std::size_t gains = 0;
  for (const Pilot& pilot : pilots) {
    const double beyond = log_ratio(pilot) - std::log1p(options.min_gain);
    sum += beyond;
    gains += beyond > 0.0 ? 1 : 0;
  }
  return gains == 0 || gains == pilots.size() ? sum / static_cast<double>(pilots.size()) : 0.0;
}

double cost_of(const std::vector<BatchSize>& sizes, std::span<const Pilot> pilots) {
  double cost = 0.0;
  for (std::size_t w = 0; w < pilots.size(); ++w)
    cost += sizes[w].challenger * pilots[w].challenger_cost + sizes[w].incumbent * pilots[w].incumbent_cost;
  return cost;
}

std::vector<BatchSize> cheapest(double level, std::span<const Pilot> pilots, bool spare) {
  std::vector<BatchSize> sizes;
  for (const Pilot& pilot : pilots)
    sizes.push_back(cheapest_batch(level, pilot.challenger_cost, pilot.incumbent_cost, spare));
  return sizes;
}

double enlarged_by(double wanted, double least, int fewer_runs) {
  return std::max(1.0, std::min({wanted, least, static_cast<double>(most_enlarged_runs) / fewer_runs}));
}

std::vector<BatchSize> sizes_for(double level, double promised, const GateOptions& options,
                                 std::span<const Pilot> pilots) {
  std::vector<BatchSize> sizes = cheapest(level, pilots, true);
  double wanted = short_seconds / cost_of(sizes, pilots), most = most_enlarged;
  if (const double cost = cost_of(sizes, pilots); cost > ample_seconds) {
    sizes = cheapest(level, pilots, false);
    double pairs = 0.0;  // one for each workload; a block also has the control
    for (const Pilot& pilot : pilots) pairs += pilot.challenger_cost + pilot.incumbent_cost;
    const double room = std::max(most_blocks * (pairs + pilots.front().incumbent_cost),
                                 most_of_limit * options.max_device_seconds) -
                        pairs;  // about what the pilots took
    wanted = std::fabs(promised) < moderate ? room / cost_of(sizes, pilots) : 1.0;
    most = most_enlarged_dear;
  }
  for (BatchSize& size : sizes) {
    const double factor = enlarged_by(wanted, most, std::min(size.challenger, size.incumbent));
    for (int* runs : {&size.challenger, &size.incumbent})
      *runs = std::min(most_runs, static_cast<int>(factor * *runs));
  }
  return sizes;
}

}  // namespace

Batches::Batches(const GateOptions& options, std::size_t workloads, std::span<const Pilot> pilots)
    : options_(options), runs_by_workload_(workloads) {
  if (pilots.empty()) return;
  const double promised = promise(options, pilots);
  if (promised >= plain)
    sizes_ = sizes_for(options.alpha * shares.front(), promised, options, pilots);
  else if (promised <= -plain)
    sizes_ = sizes_for(options.futility * shares.front(), promised, options, pilots);
  if (options.within_limit && !sizes_.empty() && cost_of(sizes_, pilots) > options.max_device_seconds)
    sizes_.clear();
}

double Batches::left() const {
  return sizes_.empty() ? 1.0 : 0.5;
}

double Batches::share() const {
  return shares.at(static_cast<std::size_t>(std::max(looks_, 1) - 1));
}

// Another batch is worth its cost if the pooled ones would decide, should they all be like those so far.
bool Batches::due() const {
  if (sizes_.empty() || verdict_ != Verdict::undecided || looks_ >= most_looks) return false;
  return looks_ == 0 || everywhere(true, most_looks) || everywhere(false, most_looks);
}

void Batches::add(std::span<const Slot> order, std::span<const double> seconds) {
  std::vector<Runs> batch(runs_by_workload_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    Runs& runs = batch.at(static_cast<std::size_t>(order[i].workload));
    (order[i].side == Side::challenger ? runs.challenger : runs.incumbent).push_back(std::log(seconds[i]));
  }
  for (std::size_t w = 0; w < batch.size(); ++w) {
    Runs& all = runs_by_workload_[w];
    for (const double incumbent : batch[w].incumbent)
      for (const double challenger : batch[w].challenger) all.differences.push_back(incumbent - challenger);
    std::sort(all.differences.begin(), all.differences.end());
    all.challenger.insert(all.challenger.end(), batch[w].challenger.begin(), batch[w].challenger.end());
    all.incumbent.insert(all.incumbent.end(), batch[w].incumbent.begin(), batch[w].incumbent.end());
  }
  runs_ += static_cast<std::int64_t>(order.size());
  ++looks_;
  judge();
}

const Discordance& Batches::discordance(std::size_t workload, int batches) const {
  const BatchSize& size = sizes_[workload];
  const std::array key{size.challenger, size.incumbent, batches};
  const auto known = distributions_.find(key);
  if (known != distributions_.end()) return known->second;
  return distributions_.emplace(key, Discordance(size.challenger, size.incumbent, batches)).first->second;
}

std::int64_t Batches::at_or_below(std::size_t workload, double bound) const {
  const std::vector<double>& all = runs_by_workload_[workload].differences;
  return std::upper_bound(all.begin(), all.end(), bound + tie) - all.begin();
}

std::int64_t Batches::at_or_above(std::size_t workload, double bound) const {
  const std::vector<double>& all = runs_by_workload_[workload].differences;
  return all.end() - std::lower_bound(all.begin(), all.end(), bound - tie);
}

// Whether `look` batches like those so far show at this level that the log ratio is above the bound.
bool Batches::faster(double level, double bound, int look, std::size_t workload) const {
  return discordance(workload, look).at_most(at_or_below(workload, bound) * look / looks_) <= level;
}

bool Batches::slower(double level, double bound, int look, std::size_t workload) const {
  return discordance(workload, look).at_most(at_or_above(workload, bound) * look / looks_) <= level;
}

bool Batches::everywhere(bool faster_side, int look) const {
  const double bound = std::log1p(options_.min_gain);
  const double part = shares.at(static_cast<std::size_t>(look - 1));
  for (std::size_t w = 0; w < sizes_.size(); ++w)
    if (faster_side ? !faster(options_.alpha * part, bound, look, w)
                    : !slower(options_.futility * part, bound, look, w))
      return false;
  return true;
}

void Batches::judge() {
  if (everywhere(true, looks_)) {
    verdict_ = Verdict::better;
  } else if (everywhere(false, looks_)) {
    verdict_ = Verdict::worse;
  } else {
    const double level = options_.guard * share() / static_cast<double>(sizes_.size());
    for (std::size_t w = 0; w < sizes_.size() && !broken_; ++w)
      if (slower(level, std::log1p(-options_.max_workload_loss), looks_, w)) broken_ = w;
    if (broken_) verdict_ = Verdict::worse;
  }
}

double Batches::centre(std::size_t workload) const {
  return median(runs_by_workload_[workload].differences);
}

double Batches::lower(std::size_t workload, double level) const {
  if (looks_ == 0) return -std::numeric_limits<double>::infinity();
  const std::int64_t critical = discordance(workload, looks_).critical(level * share());
  return critical < 0 ? -std::numeric_limits<double>::infinity()
                      : runs_by_workload_[workload].differences[static_cast<std::size_t>(critical)];
}

double Batches::upper(std::size_t workload, double level) const {
  if (looks_ == 0) return std::numeric_limits<double>::infinity();
  const std::int64_t critical = discordance(workload, looks_).critical(level * share());
  const std::vector<double>& all = runs_by_workload_[workload].differences;
  return critical < 0 ? std::numeric_limits<double>::infinity()
                      : all[all.size() - 1 - static_cast<std::size_t>(critical)];
}

std::vector<std::vector<double>> Batches::rows() const {
  std::size_t count = std::numeric_limits<std::size_t>::max();
  for (const Runs& runs : runs_by_workload_)
    count = std::min({count, runs.challenger.size(), runs.incumbent.size()});
  std::vector<std::vector<double>> rows(count);
  for (std::size_t i = 0; i < count; ++i)
    for (const Runs& runs : runs_by_workload_) rows[i].push_back(runs.incumbent[i] - runs.challenger[i]);
  return rows;
}

}  // namespace cultivar
