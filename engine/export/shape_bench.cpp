// SPDX-License-Identifier: Apache-2.0
#include "engine/export/shape_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/system/clock.hpp"

namespace cultivar {
namespace {

// Of the variant that is timed first; every other side is timed as often.
constexpr int kRunsOfShape = 30;
constexpr double kSecondsOfShape = 0.4;

bool is_own_fault(const Evaluation& rejected) {
  return !rejected.host_fault && !rejected.late;
}

}  // namespace

Expected<ShapeTimes> ShapeBench::times(int worker, const Workload& shape,
                                       const std::vector<const DispatchMember*>& members, bool beside,
                                       const std::string& what) {
  const Clock::time_point start = Clock::now();
  ShapeTimes times{.shape = shape.name, .values = shape.values};
  std::vector<Side> sides;
  for (const DispatchMember* member : members) {
    auto compiled = evaluator_.compile(member->variant, {shape}, Breadth::timing);
    if (stop_) return PortfolioConfirmations::interruption();
    if (compiled)
      sides.emplace_back(member->id, std::move(*compiled));
    else if (is_own_fault(compiled.error()))
      times.failed[member->id] = compiled.error().reason;
  }
  while (!sides.empty()) {
    const auto found = timed(worker, shape, sides, beside, what);
    if (!found) return tl::make_unexpected(found.error());
    if (found->measured() && !found->workloads.empty()) {
      take(*found, sides, times);
      break;
    }
    if (!is_own_fault(*found)) {
      times.left_out = LeftOut::after(*found);
      break;
    }
    times.failed[sides.front().first] = found->reason;
    sides.erase(sides.begin());
  }
  // Why one of the others has no time is known only of a variant that is timed alone.
  for (std::size_t i = 1; i < sides.size() && !times.left_out; ++i) {
    if (times.kernels.contains(sides[i].first)) continue;
    const auto alone = timed(worker, shape, {sides[i]}, false, what);
    if (!alone) return tl::make_unexpected(alone.error());
    if (!alone->measured() && is_own_fault(*alone)) times.failed[sides[i].first] = alone->reason;
  }
  if (times.kernels.empty() && !times.left_out) times.left_out = LeftOut::not_computed();
  times.spent_s = seconds_since(start);
  return times;
}

Expected<Evaluation> ShapeBench::timed(int worker, const Workload& shape, const std::vector<Side>& sides,
                                       bool beside, const std::string& what) {
  EvaluateRequest request;
  request.workloads = {shape};
  request.timed_only = true;
  request.sampling.max_samples = kRunsOfShape;
  request.sampling.max_seconds = kSecondsOfShape;
  request.sampling.oracle_rows = config_.evaluation.oracle_rows;
  request.variant = sides.front().second;
  for (std::size_t i = 1; i < sides.size(); ++i)
    request.contenders.emplace_back(fmt::format("#{}", sides[i].first), sides[i].second);
  if (beside)
    for (auto& contender : kernels_.contenders({shape}, Breadth::timing))
      request.contenders.push_back(std::move(contender));
  for (int attempt = 1;; ++attempt) {
    auto found =
        evaluator_.evaluate(worker, request, [&](const std::string& step) { tell_(what + ": " + step); });
    if (stop_) return PortfolioConfirmations::interruption();
    if (!found || attempt == PortfolioConfirmations::kAttempts || !found->worker_lost || is_own_fault(*found))
      return found;
  }
}

void ShapeBench::take(const Evaluation& found, const std::vector<Side>& sides, ShapeTimes& times) const {
  const WorkloadResult& result = found.workloads.front();
  const double first = 1e-6 * result.median_us;
  times.kernels[sides.front().first] = first;
  for (const auto& ratio : result.ratios) {
    const auto side = std::ranges::find_if(
        sides, [&](const Side& each) { return fmt::format("#{}", each.first) == ratio.first; });
    if (side != sides.end())
      times.kernels[side->first] = first * ratio.second;
    else
      times.contenders[ratio.first] = first * ratio.second;
  }
  double fastest = first;
  for (const auto& [id, seconds] : times.kernels) fastest = std::min(fastest, seconds);
  if (fastest > most_seconds_) times.left_out = LeftOut::too_slow(most_seconds_);
}

}  // namespace cultivar
