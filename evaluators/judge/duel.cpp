// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/duel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "evaluators/judge/contender_side.hpp"
#include "evaluators/judge/sampler.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {

namespace {

// The pilot runs of each side on each workload: two, the first of which is cold and not counted; up to five
// if they are short, and a single one if it is long.
constexpr int kLeastPilots = 2, kMostPilots = 5;
constexpr double kShortPilots = 0.1;
constexpr double kOnePilot = 0.5;  // a run that is longer is not repeated

struct Bout {  // one workload: its inputs, and the sides that run on it
  std::unique_ptr<TimedRuns> runs;
  std::array<SampledSide, 3> sides;  // by Side; the control only for the first workload
  std::array<std::vector<double>, 3> seconds;
  Pilot pilot;
};

struct Failed {
  Side side;
  Evaluation why;
};

class Duel {
 public:
  Duel(const CascadeSite& site, const GateRequest& request, std::uint64_t seed)
      : site_(site), request_(request), seed_(seed) {}

  std::optional<Failed> open() {
    const int threads = cores_of(site_.device.facts());
    const auto stock = site_.stock ? site_.stock : std::make_shared<TimingStock>();
    stock->stretches->renew(derive_seed(seed_, "stretches"));
    for (std::size_t w = 0; w < request_.workloads.size(); ++w) {
      const Workload& workload = request_.workloads[w];
      Bout& bout = bouts_.emplace_back();
      bout.runs = std::make_unique<TimedRuns>(
          site_.task, site_.oracle, workload, derive_seed(seed_, "duel", w), request_.oracle_rows,
          site_.run_deadline_s, threads, stock, input_source_of(site_.device));
      if (site_.device.apart_from_host()) bout.runs->work_beside_runs();
      for (const Side side : {Side::challenger, Side::incumbent, Side::control}) {
        if (side == Side::control && w != 0) continue;
        bout.sides[static_cast<std::size_t>(side)] = SampledSide{
            std::string(name_of(side)),
            [this, side, &workload] { return open_side(site_, Stage::gate, compiled(side), workload); }};
        if (compiled(side).is_library() && side != Side::control)
          if (auto wrong = check_contender(site_, Stage::gate, compiled(side), workload,
                                           derive_seed(seed_, "contender", w)))
            return Failed{side, std::move(*wrong)};
        if (auto failed = pilot(bout, side)) return failed;
      }
    }
    return std::nullopt;
  }

  std::vector<Pilot> pilots() const {
    std::vector<Pilot> all;
    for (const Bout& bout : bouts_) all.push_back(bout.pilot);
    return all;
  }

  // Runs one block of the gate; returns the seconds of its slots. The sides of a pair share their inputs. In
  // a batch every run has its own: otherwise the side with more runs would more often be the first on its
  // inputs.
  tl::expected<std::vector<double>, Failed> block(const std::vector<Slot>& order, bool batch) {
    std::vector<double> seconds;
    int last = -1;
    for (const Slot& slot : order) {
      Bout& bout = bouts_.at(static_cast<std::size_t>(slot.workload));
      const auto timed = time(bout, slot.side, batch || slot.workload != last);
      if (!timed) return tl::make_unexpected(timed.error());
      last = slot.workload;
      bout.seconds[static_cast<std::size_t>(slot.side)].push_back(*timed);
      seconds.push_back(*timed);
    }
    return seconds;
  }

  // With the next progress; `spent`: device time of the blocks so far; `needed`: see duel_words.
  void tell(std::string doing, double spent, double needed) {
    doing_ = std::move(doing);
    spent_ = spent;
    needed_ = needed;
    since_ = Clock::now();
  }

  std::vector<double> medians(Side side) const {
    std::vector<double> all;
    for (const Bout& bout : bouts_) {
      const std::vector<double>& seconds = bout.seconds[static_cast<std::size_t>(side)];
      all.push_back(seconds.empty() ? 0.0 : median(seconds));
    }
    return all;
  }

 private:
  std::optional<Failed> pilot(Bout& bout, Side side) {
    std::vector<double> seconds, costs;
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kLeastPilots || (i < kMostPilots && seconds_since(start) < kShortPilots); ++i) {
      const Clock::time_point before = Clock::now();
      const auto timed = time(bout, side, true);
      if (!timed) return timed.error();
      const bool only = i == 0 && *timed > kOnePilot;
      if (i == 0 && !only) continue;
      seconds.push_back(*timed);
      costs.push_back(seconds_since(before));
      if (only) break;
    }
    if (side == Side::challenger) {
      bout.pilot.challenger_seconds = median(seconds);
      bout.pilot.challenger_cost = median(costs);
    } else if (side == Side::incumbent) {
      bout.pilot.incumbent_seconds = median(seconds);
      bout.pilot.incumbent_cost = median(costs);
    }
    return std::nullopt;
  }

  const Compiled& compiled(Side side) const {
    if (side == Side::challenger) return request_.challenger;
    return side == Side::incumbent ? request_.incumbent : request_.control;
  }

  tl::expected<double, Failed> time(Bout& bout, Side side, bool fresh) {
    if (fresh) bout.runs->next();
    SampledSide& sampled = bout.sides[static_cast<std::size_t>(side)];
    // Where a process's pages lie makes up to a tenth of its speed on some virtual machines, run after run.
    // Each run of a cpu kernel has a process and pages of its own, so that this is noise, which the test
    // knows.
    if (!site_.device.apart_from_host()) sampled.session.reset();
    auto sample = bout.runs->time(sampled);
    if (const double now = seconds_since(start_); now > told_ + kTellEvery) {
      const double spent = spent_ + seconds_since(since_), limit = request_.options.max_device_seconds;
      site_.progress({Stage::gate,
                      {},
                      doing_.empty() ? fmt::format("warm-up, {:.1f} s", now)
                                     : duel_words(doing_, spent, limit, needed_)});
      told_ = now;
    }
    if (!sample) return tl::make_unexpected(Failed{side, std::move(sample.error())});
    return sample->seconds;
  }

  static constexpr double kTellEvery = 0.5;
  const Clock::time_point start_ = Clock::now();
  double told_ = 0.0;
  std::string doing_;  // empty: the warm-up, which the limit does not count
  double spent_ = 0.0, needed_ = 0.0;
  Clock::time_point since_ = start_;
  const CascadeSite& site_;
  const GateRequest& request_;
  std::uint64_t seed_;
  std::vector<Bout> bouts_;
};

void end_by(const Failed& failed, GateReport& report) {
  report.trouble.push_back(
      fmt::format("{}: {}\n{}", name_of(failed.side), failed.why.reason, failed.why.diagnostics));
  report.host_fault = failed.why.host_fault;
  report.decision.verdict = failed.side == Side::challenger ? Verdict::worse : Verdict::undecided;
  report.decision.reason = fmt::format("the {} failed: {}", name_of(failed.side), failed.why.reason);
}

}  // namespace

std::string duel_words(const std::string& doing, double spent_s, double limit_s, double needed_s) {
  const std::string noise = needed_s > 0.0 ? fmt::format("; at this noise {:g} % need about {:.2g} s",
                                                         100.0 * kToldEffect, needed_s)
                                           : "";
  if (spent_s <= limit_s) return fmt::format("{}, {:.1f} of {:.4g} s{}", doing, spent_s, limit_s, noise);
  return fmt::format("{}, {:.1f} s (beyond its {:.4g} s while it can still show a gain)", doing, spent_s,
                     limit_s);
}

GateReport run_duel(const CascadeSite& site, const GateRequest& request) {
  const Clock::time_point start = Clock::now();
  GateReport report;
  report.input_seed = secret_seed();
  Duel duel(site, request, report.input_seed);
  std::vector<std::string> names;
  for (const Workload& w : request.workloads) names.push_back(w.name);
  site.progress({Stage::gate, {}, "warm-up"});
  std::optional<Failed> failed = duel.open();
  DuelTimes times = request.earlier;
  if (times.blocks.empty() && !failed) times.pilots = duel.pilots();
  GateOptions options = request.options;
  options.within_limit = request.within_limit;
  Gate gate(names, options, request.seed, times.pilots);
  int pairs = 0;
  double spent = 0.0;
  const auto add = [&](const DuelTimes::Block& block) {
    pairs += gate.in_batch() ? 0 : 1;
    spent += block.device_seconds;
    gate.add(block.seconds, block.device_seconds);
  };
  std::ranges::for_each(request.earlier.blocks, add);
  // In pairs. A decision with bounds costs milliseconds, and the first bounds are far too wide.
  const int first_look = 2 * gate.least_blocks(), looks_every = 8;
  DuelOutlook outlook(options);
  bool enough = false;
  while (!failed && !gate.done() && !enough && (request.within_limit || !outlook.hopeless())) {
    duel.tell(gate.in_batch() ? "runs in random order"
                              : fmt::format("{} of at most {} pairs", pairs, options.max_blocks),
              spent, outlook.needed_s());
    const double before = seconds_since(start);
    auto seconds = duel.block(gate.next_order(), gate.in_batch());
    if (!seconds) {
      failed = std::move(seconds.error());
      break;
    }
    times.blocks.push_back({std::move(*seconds), seconds_since(start) - before});
    add(times.blocks.back());
    if (pairs >= first_look && pairs % looks_every == 0) outlook.see(gate.decision());
    enough = site.enough();
  }
  report.decision = gate.decision();
  if (!failed && !gate.done()) {
    report.decision.reason += enough ? "; the duel ended because it was no longer needed"
                                     : fmt::format(
                                           "; the duel ended early, because at its noise {:g} % need about "
                                           "{:.2g} s of device time",
                                           100.0 * kToldEffect, outlook.needed_s());
    if (enough) report.times = std::move(times);
  } else if (!failed && (gate.may_go_on() || worth_another_part(report.decision, options))) {
    report.times = std::move(times);
  }
  report.challenger_seconds = duel.medians(Side::challenger);
  report.incumbent_seconds = duel.medians(Side::incumbent);
  report.challenger_seconds.resize(names.size());
  report.incumbent_seconds.resize(names.size());
  if (failed) end_by(*failed, report);
  for (std::size_t w = 0; !failed && w < names.size(); ++w) {
    const double seconds = report.challenger_seconds[w];
    if (seconds <= 0.0) continue;
    const auto why = impossibly_fast(site.task, request.workloads[w], site.device, seconds);
    if (!why) continue;
    failed = Failed{Side::challenger, rejection(Stage::gate, "impossibly fast on " + names[w], *why)};
    end_by(*failed, report);
  }
  report.seconds = seconds_since(start);
  return report;
}

double needed_seconds(const Decision& decision, const GateOptions& options, double effect) {
  constexpr double kWithoutBounds = 4.0;
  const double gain = std::log1p(effect);
  double factor = std::pow((decision.log_ratio - decision.lower) / (gain - std::log1p(options.min_gain)), 2);
  for (const WorkloadRatio& w : decision.workloads)
    factor = std::max(factor,
                      std::pow((w.log_ratio - w.lower) / (gain - std::log1p(-options.max_workload_loss)), 2));
  return decision.device_seconds * (std::isfinite(factor) ? factor : kWithoutBounds);
}

bool worth_another_part(const Decision& ended, const GateOptions& options) {
  return ended.verdict == Verdict::undecided && std::isfinite(ended.lower) &&
         ended.log_ratio > std::log1p(options.min_gain) &&
         needed_seconds(ended, options, std::expm1(ended.log_ratio)) <=
             kMostDuelParts * options.max_device_seconds;
}

void DuelOutlook::see(const Decision& so_far) {
  if (!std::isfinite(so_far.lower) || options_.min_gain > 0.5 * kToldEffect) return;
  needed_s_ = needed_seconds(so_far, options_, kToldEffect);
  const double seen = std::expm1(std::max(std::fabs(so_far.log_ratio), std::log1p(kToldEffect)));
  hopeless_ = needed_seconds(so_far, options_, seen) > kMostDuelParts * options_.max_device_seconds;
}

}  // namespace cultivar
