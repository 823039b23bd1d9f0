// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

// Limit of the oracle's arithmetic per timed run, except that at least kLeastRows rows are always checked.
// Over the many runs of a measurement the checked rows add up.
constexpr double kSampleFlops = 1.2e8;
constexpr int kLeastRows = 6;

// How many runs in a row may be discarded because the cell was busy outside the timed span: noise ends, a
// cheat does not.
constexpr int kMostDisturbances = 12;
// Every measurement has at least this many counted runs.
constexpr int kSureRuns = 5;
// How many runs in a row may be discarded because the device's clock was too low or the host was busy, and
// the pause between two of them.
constexpr int kMostDeviceDisturbances = 60;
constexpr auto kDeviceRest = std::chrono::milliseconds(50);
// The share of a side's runs that may be discarded, and how many runs must have been discarded before the
// share means anything.
constexpr double kMostDiscarded = 1.0 / 3.0;
constexpr std::int64_t kLeastDiscarded = 6;

// The elements of these rows of an output; none if they are all of it.
std::vector<ElementRange> elements_of(const RowLayout& layout, const OutputLayout& output,
                                      std::span<const std::int64_t> rows) {
  const RowSpan span = layout.span_of(output, rows);
  if (static_cast<std::int64_t>(span.last - span.first) == layout.group(output).rows) return {};
  std::vector<ElementRange> pieces;  // of a row, from its base
  for (const std::int64_t offset : output.element_offsets)
    if (pieces.empty() || pieces.back().first + pieces.back().count != offset)
      pieces.push_back({offset, 1});
    else
      ++pieces.back().count;
  std::vector<ElementRange> all;
  for (std::size_t i = span.first; i < span.last; ++i)
    for (const ElementRange& piece : pieces)
      all.push_back({layout.base(output, rows[i]) + piece.first, piece.count});
  std::ranges::sort(all, {}, &ElementRange::first);
  return all;
}

// Three runs in any case; then one for every two of the variant, unless it has taken more time than that.
bool incumbent_is_due(const SampledSide& variant, const SampledSide& incumbent, bool counted) {
  constexpr std::size_t kLeast = 3;
  if (!counted) return incumbent.session == nullptr;  // one run to warm up
  if (incumbent.samples.size() < kLeast) return true;
  return 2 * incumbent.samples.size() <= variant.samples.size() && incumbent.spent_s <= variant.spent_s;
}

std::vector<double> seconds_of(const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  for (const Sample& s : samples) seconds.push_back(s.seconds);
  return seconds;
}

}  // namespace

TimedRuns::TimedRuns(const Task& task, const TaskReference& library, const Workload& workload,
                     std::uint64_t seed, int oracle_rows, double run_deadline_s, int oracle_threads,
                     std::shared_ptr<TimingStock> stock, InputSource source)
    : task_(task),
      library_(library),
      workload_(workload),
      seed_(seed),
      oracle_rows_(oracle_rows),
      run_deadline_s_(run_deadline_s),
      layout_(task, workload),
      oracle_(library, task, workload, oracle_threads),
      stock_(stock ? std::move(stock) : std::make_shared<TimingStock>()),
      pool_(source == InputSource::windows
                ? InputPool(task, workload, derive_seed(seed, "pool"), stock_->stretches,
                            kept_inputs(*stock_, library, task, workload, seed))
                : InputPool(task, workload, derive_seed(seed, "pool"), stock_->inputs,
                            kept_inputs(*stock_, library, task, workload, seed))) {
  outputs_ = std::move(stock_->outputs);
  outputs_.resize(layout_.outputs().size());
  for (std::size_t t = 0; t < outputs_.size(); ++t) {
    const OutputLayout& output = layout_.outputs()[t];
    outputs_[t].resize(static_cast<std::size_t>(output.elements) * size_of(output.dtype));
  }
  wanted_.resize(outputs_.size());
  next();
}

TimedRuns::~TimedRuns() {
  if (ahead_.valid()) ahead_.wait();
  stock_->outputs = std::move(outputs_);
}

void TimedRuns::next(bool complete) {
  if (ahead_.valid()) ahead_.get();  // it reads the inputs that are about to be replaced
  pool_.next();
  ++run_;
  exact_.clear();
  rounded_.clear();
  const std::uint64_t seed = derive_seed(seed_, "rows", run_);
  complete_ = complete;
  rows_ = complete ? rows_to_check(task_, workload_, layout_, kEveryRowFlops, seed)
                   : draw_rows(layout_, task_.flops(workload_), kSampleFlops,
                               std::min(kLeastRows, oracle_rows_), oracle_rows_, seed);
  for (std::size_t t = 0; t < wanted_.size(); ++t)
    wanted_[t] = elements_of(layout_, layout_.outputs()[t], rows_);
}

tl::expected<Sample, Evaluation> TimedRuns::time(SampledSide& side) {
  if (beside_ && !complete_ && exact_.empty() && !ahead_.valid())
    ahead_ = std::async(std::launch::async,
                        [this] { return oracle_.rows(library_.exact(), pool_.view(), rows_); });
  auto ran = run(side);
  return ran ? check(*side.session, *ran) : ran;
}

tl::expected<Sample, Evaluation> TimedRuns::warm(SampledSide& side) {
  return run(side);
}

// True if at least half as large a share of the other sides' runs, on the same inputs and interleaved with
// this side's, was disturbed by the host; or if there are no other sides to tell.
bool TimedRuns::others_are_disturbed(const std::string& side) const {
  std::int64_t runs = 0, by_host = 0;
  for (const auto& [name, tally] : tallies_)
    if (name != side) runs += tally.runs, by_host += tally.by_host;
  return runs < kLeastDiscarded ||
         static_cast<double>(by_host) > 0.5 * kMostDiscarded * static_cast<double>(runs);
}

std::optional<Evaluation> TimedRuns::too_many_discarded(const SampledSide& side) const {
  const Tally& tally = tallies_.at(side.name);
  const auto too_many = [&](std::int64_t discarded) {
    return discarded >= kLeastDiscarded &&
           static_cast<double>(discarded) > kMostDiscarded * static_cast<double>(tally.runs);
  };
  if (!too_many(tally.by_kernel) && (!too_many(tally.by_host) || others_are_disturbed(side.name)))
    return std::nullopt;
  if (2 * tally.too_short > tally.by_kernel + tally.by_host) {
    Evaluation rejected =
        rejection_of(Stage::measure, {Fault::Kind::too_short, tally.short_run}, workload_.name);
    rejected.diagnostics += fmt::format("{} of {} runs were too short.\n", tally.too_short, tally.runs);
    return rejected;
  }
  std::string why = side.why_discarded;
  while (why.ends_with('.')) why.pop_back();
  return rejection(Stage::measure, "too many disturbed runs on " + workload_.name,
                   fmt::format("{}: {} of {} runs did not count, the last because {}. Other kernels are not "
                               "disturbed in this way. Do all work inside the call, and nothing else.\n",
                               workload_.name, tally.by_kernel + tally.by_host, tally.runs, why));
}

tl::expected<Sample, Evaluation> TimedRuns::run(SampledSide& side) {
  Tally& tally = tallies_[side.name];
  int disturbances = 0, device_disturbances = 0, noise = 0;
  while (true) {
    if (!side.session) {
      auto opened = side.open();
      if (!opened) return tl::make_unexpected(opened.error());
      side.session = std::move(*opened);
    }
    RunOptions options;
    options.timed = true;
    options.poison_seed = derive_seed(seed_, "poison " + side.name, run_);
    options.deadline_s = run_deadline_s_;
    options.wanted = wanted_;
    auto ran = side.session->run(pool_.inputs(), outputs_, options);
    ++tally.runs;
    if (ran && ran->disturbance.empty()) return *ran;
    // A run that did no work is a wrong result: a kernel could choose the inputs that it computes.
    if (!ran && ran.error().kind == Fault::Kind::too_short)
      if (auto checked = check(*side.session, {}); !checked) return checked;
    side.why_discarded = ran ? ran->disturbance : ran.error().detail;
    if (!ran && ran.error().kind == Fault::Kind::too_short)
      ++tally.too_short, tally.short_run = ran.error().detail;
    tally.by_kernel += !ran || ran->disturber == Sample::Disturber::kernel;
    tally.by_host += ran && ran->disturber == Sample::Disturber::host;
    if (auto rejected = too_many_discarded(side)) return tl::make_unexpected(std::move(*rejected));
    if (ran && ran->disturber != Sample::Disturber::kernel) {
      ++side.discarded;
      if (++device_disturbances > kMostDeviceDisturbances)
        throw std::runtime_error(
            fmt::format("the device is not in a state for timing: {} consecutive runs on {} were discarded, "
                        "the last because {}",
                        device_disturbances, workload_.name, ran->disturbance));
      std::this_thread::sleep_for(kDeviceRest);
      next(complete_);
      continue;
    }
    const Fault fault = ran ? Fault{Fault::Kind::idle_activity, ran->disturbance} : std::move(ran.error());
    const bool counts =
        ran ? ++disturbances > kMostDisturbances : !may_be_noise(fault.kind) || ++noise == kNoiseLimit;
    if (counts) return tl::make_unexpected(rejection_of(Stage::measure, fault, workload_.name));
    ++side.discarded;
    if (!ran) side.session.reset();
    next(complete_);  // never the same inputs twice, because a kernel could store results
  }
}

tl::expected<Sample, Evaluation> TimedRuns::check(Session& session, const Sample& sample) {
  if (const std::size_t unwritten = session.unwritten_elements(); too_many_unwritten(layout_, unwritten))
    return tl::make_unexpected(rejection(Stage::measure, "output elements not written on " + workload_.name,
                                         describe_unwritten(layout_, unwritten)));
  const Comparison compared = complete_ ? compared_completely() : compared_sample();
  if (!compared.right)
    return tl::make_unexpected(rejection(
        Stage::measure, fmt::format("wrong result in a timed run on {}: {}", workload_.name, compared.reason),
        compared.diagnostics +
            fmt::format("Found in a secret sample of {} of {} rows of a timed run. Every timed run has "
                        "new inputs and is checked.\n",
                        rows_.size(), layout_.rows())));
  return sample;
}

std::function<std::vector<LegalError>()> TimedRuns::wider() {
  return [this] {
    return legal_errors_of(*stock_, library_, task_, workload_, layout_, oracle_, pool_.view(),
                           derive_seed(seed_, "wider", run_));
  };
}

Comparison TimedRuns::compared_sample() {
  if (exact_.empty())
    exact_ = ahead_.valid() ? ahead_.get() : oracle_.rows(library_.exact(), pool_.view(), rows_);
  ExpectedRows expected{rows_, exact_, {}};
  expected.right_indices = oracle_.index_rule(pool_.view());
  // Individually drawn rows form one block, because a single row may be too small to have an error scale.
  expected.block_rows = layout_.rows();
  if (library_.rounded() != nullptr) {
    expected.wider = wider();
    expected.rounded = [&] {
      if (rounded_.empty()) rounded_ = oracle_.rows(library_.rounded(), pool_.view(), rows_);
      return rounded_;
    };
  }
  return compare(task_, layout_, outputs_, expected);
}

Comparison TimedRuns::compared_completely() {
  const auto computed = [&](RowFunction function) {
    return [this, function](std::span<const std::int64_t> rows, std::span<double> out) {
      oracle_.rows(function, pool_.view(), rows, out);
    };
  };
  RowsInPieces expected{rows_, computed(library_.exact()), {}};
  expected.right_indices = oracle_.index_rule(pool_.view());
  if (library_.rounded() != nullptr) {
    expected.wider = wider();
    expected.rounded = computed(library_.rounded());
  }
  return compare_in_pieces(task_, layout_, outputs_, expected);
}

std::optional<Evaluation> sample(TimedRuns& runs, std::vector<SampledSide>& sides, const Sampling& sampling,
                                 double incumbent_us, double give_up, std::uint64_t seed,
                                 const std::function<void()>& alive, const WarmUp& warm_up, bool complete) {
  const Clock::time_point start = Clock::now();
  std::mt19937_64 order_stream(derive_seed(seed, "order"));
  std::vector<std::size_t> order(sides.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const SampledSide* incumbent = nullptr;
  bool alone = true;  // without contenders
  for (std::size_t i = 1; i < sides.size(); ++i) {
    if (sides[i].is_incumbent) incumbent = &sides[i];
    alone = alone && sides[i].is_incumbent;
  }

  // Any counted run that is sure to happen may be the complete one.
  const std::size_t completed =
      derive_seed(seed, "complete") %
      static_cast<std::uint64_t>(std::max(1, std::min(sampling.min_samples, kSureRuns)));
  const auto block = [&](bool keep) -> std::optional<Evaluation> {
    alive();
    runs.next(complete && keep && sides[0].samples.size() == completed);
    std::shuffle(order.begin(), order.end(), order_stream);
    for (const std::size_t i : order) {
      SampledSide& side = sides[i];
      if (side.trouble || (side.is_incumbent && !incumbent_is_due(sides[0], side, keep))) continue;
      const Clock::time_point before = Clock::now();
      auto sample = keep || warm_up.checked ? runs.time(side) : runs.warm(side);
      if (sample && keep) {
        side.samples.push_back(*sample);
        side.spent_s += seconds_since(before);
      }
      if (sample) continue;
      if (i == 0) return sample.error();
      side.trouble = sample.error();
    }
    return std::nullopt;
  };

  for (int i = 0; i == 0 || ((i < warm_up.runs || seconds_since(start) < warm_up.seconds) &&
                             seconds_since(start) < warm_up.enough_s);
       ++i)
    if (auto wrong = block(false)) return wrong;
  const Clock::time_point counting = Clock::now();

  StoppingRule rule({.min_samples = std::max(2, std::min(sampling.max_samples, 50)),
                     .max_samples = std::max(2, sampling.max_samples),
                     .max_seconds = sampling.max_seconds});
  while (true) {
    if (auto wrong = block(true)) return wrong;
    const std::vector<Sample>& samples = sides[0].samples;
    const int n = static_cast<int>(samples.size());
    rule.add(samples.back().seconds);
    if (!alone) {
      if (rule.done()) return std::nullopt;
      if (sampling.until_clear && clear_difference(samples, sides[1].samples)) return std::nullopt;
      continue;
    }
    if (n >= sampling.screening_samples) return std::nullopt;
    if (n < sampling.min_samples) continue;
    if (seconds_since(counting) > sampling.screening_seconds) return std::nullopt;
    const double best_us = incumbent && !incumbent->samples.empty()
                               ? median(seconds_of(incumbent->samples)) * 1e6
                               : incumbent_us;
    if (best_us > 0.0 && median(seconds_of(samples)) * 1e6 > give_up * best_us) return std::nullopt;
  }
}

bool clear_difference(const std::vector<Sample>& ours, const std::vector<Sample>& theirs) {
  constexpr std::size_t kLeast = 5;
  constexpr double kPlain = 1.2, kChance = 0.001;
  const std::size_t pairs = std::min(ours.size(), theirs.size());
  if (pairs < kLeast) return false;
  const auto of = [](const std::vector<Sample>& samples) {
    const auto [least, most] = std::ranges::minmax(samples, {}, &Sample::seconds);
    return std::pair(least.seconds, most.seconds);
  };
  const auto [our_least, our_most] = of(ours);
  const auto [their_least, their_most] = of(theirs);
  if (our_most * kPlain < their_least || their_most * kPlain < our_least) return true;
  std::size_t faster = 0;
  for (std::size_t i = 0; i < pairs; ++i) faster += ours[i].seconds < theirs[i].seconds;
  // Two-sided: at most that many of the pairs contradict the majority.
  const std::size_t against = std::min(faster, pairs - faster);
  double ways = 1.0, tail = 0.0;
  for (std::size_t k = 0; k <= against; ++k) {
    tail += ways;
    ways *= static_cast<double>(pairs - k) / static_cast<double>(k + 1);
  }
  return 2.0 * tail * std::pow(0.5, static_cast<double>(pairs)) < kChance;
}

WorkloadResult summarise(const Task& task, const Workload& workload, Target target,
                         const std::vector<SampledSide>& sides) {
  WorkloadResult result;
  result.workload = workload.name;
  result.samples = sides[0].samples;
  result.discarded = sides[0].discarded;
  const Quartiles q = quartiles(seconds_of(result.samples));
  result.median_us = q.median * 1e6;
  result.q1_us = q.q1 * 1e6;
  result.q3_us = q.q3 * 1e6;
  result.unit = unit_of(task, target);
  result.value = rate_of(task, workload, target, q.median);
  for (std::size_t i = 1; i < sides.size(); ++i)
    if (sides[i].is_incumbent) {
      if (!sides[i].samples.empty()) result.incumbent_us = 1e6 * median(seconds_of(sides[i].samples));
    } else if (!sides[i].trouble && !sides[i].samples.empty()) {
      const auto theirs = seconds_of(sides[i].samples), ours = seconds_of(result.samples);
      result.ratios[sides[i].name] = median(theirs) / q.median;
      result.ratio_intervals[sides[i].name] = bootstrap_ratio_of_medians(theirs, ours, 0.95, 1, 500);
    }
  return result;
}

std::string_view name_of(SamplingEnd reason) {
  static constexpr std::array<std::string_view, 5> names{"not yet", "precise", "noise stable",
                                                         "sample limit reached", "time limit reached"};
  return names.at(static_cast<std::size_t>(reason));
}

StoppingRule::StoppingRule(StoppingOptions options) : options_(options) {
  if (options.min_samples < 2 || options.max_samples < options.min_samples)
    throw std::invalid_argument(
        "stopping rule: min_samples must be at least 2 and max_samples at least min_samples");
  if (!(options.max_seconds > 0.0) || !(options.max_error > 0.0) || !(options.noise_spread > 0.0))
    throw std::invalid_argument("stopping rule: max_seconds, max_error and noise_spread must be positive");
  if (options.noise_check_every < 1 || options.noise_window < options.min_noise_samples ||
      options.min_noise_samples < 2)
    throw std::invalid_argument(
        "stopping rule: the noise window must hold min_noise_samples, which must be at least 2");
}

void StoppingRule::add(double seconds) {
  if (!std::isfinite(seconds) || !(seconds > 0.0))
    throw std::invalid_argument("stopping rule: a time must be positive and finite");
  ++samples_;
  seconds_ += seconds;
  const double before = seconds - mean_;
  mean_ += before / samples_;
  squares_ += before * (seconds - mean_);
  if (samples_ < 2) return;
  noise_.push_back(relative_deviation());
  if (static_cast<int>(noise_.size()) > options_.noise_window) noise_.pop_front();
  if (samples_ % options_.noise_check_every == 0) stable_ = noise_is_stable();
}

SamplingEnd StoppingRule::reason() const {
  if (samples_ >= options_.min_samples) {
    if (relative_error() <= options_.max_error) return SamplingEnd::precise;
    if (stable_) return SamplingEnd::noise_stable;
  }
  if (samples_ >= options_.max_samples) return SamplingEnd::samples_spent;
  if (seconds_ >= options_.max_seconds) return SamplingEnd::seconds_spent;
  return SamplingEnd::not_yet;
}

double StoppingRule::relative_deviation() const {
  return std::sqrt(squares_ / (samples_ - 1)) / mean_;
}

double StoppingRule::relative_error() const {
  if (samples_ < 2) return std::numeric_limits<double>::infinity();
  return relative_deviation() / std::sqrt(static_cast<double>(samples_));
}

bool StoppingRule::noise_is_stable() const {
  if (static_cast<int>(noise_.size()) < options_.min_noise_samples) return false;
  const double now = noise_.back();
  double squares = 0.0;
  for (const double noise : noise_) squares += (noise - now) * (noise - now);
  return std::sqrt(squares / static_cast<double>(noise_.size() - 1)) < options_.noise_spread * now;
}

}  // namespace cultivar
