// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/speeds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cultivar {

namespace {

const WorkloadResult* row_of(const Evaluation& evaluation, const std::string& workload) {
  const auto found = std::ranges::find(evaluation.workloads, workload, &WorkloadResult::workload);
  return found == evaluation.workloads.end() ? nullptr : &*found;
}

double percent(double log_ratio) {
  return 100.0 * std::expm1(log_ratio);
}

}  // namespace

const std::optional<Evaluation>& Speeds::evaluation(IndividualId id) const {
  const auto [place, added] = evaluations_.try_emplace(id);
  if (added && (place->second = s_.record_view.evaluation(id)))
    for (WorkloadResult& row : place->second->workloads) row.samples.clear();  // they are large
  return place->second;
}

double Speeds::value(IndividualId id, std::size_t w) const {
  double log_ratio = 0.0;
  // Each duel's incumbent was settled before; the count is a bound for records that say otherwise.
  for (std::int64_t steps = s_.archive.size(); steps > 0; --steps) {
    const DuelResult* const duel = s_.archive.duel(id);
    if (!duel || w >= duel->workloads.size()) break;
    log_ratio += duel->workloads[w].log_ratio;
    id = duel->incumbent;
  }
  const auto& evaluation = this->evaluation(id);
  if (!evaluation || !evaluation->measured() || !(evaluation->fitness > 0.0)) return 0.0;
  const WorkloadResult* const row = row_of(*evaluation, s_.workloads[w].name);
  if (!row) return 0.0;
  // The archive's fitness is at the first incumbent's pace, the evaluation's at the pace of its time.
  const double pace = s_.archive.duel(id) ? 1.0 : evaluation->fitness / s_.archive.fitness(id);
  return row->value / pace * std::exp(log_ratio);
}

double Speeds::noise(IndividualId a, IndividualId b) const {
  const auto &one = evaluation(a), &two = evaluation(b);
  double spread = 0.0;
  int rows = 0;
  if (one && two)
    for (const WorkloadResult& x : one->workloads)
      if (const WorkloadResult* const y = row_of(*two, x.workload);
          y && x.median_us > 0 && y->median_us > 0) {
        // The quartiles' distances: the speed drifts during a measurement about as much as between two.
        spread += std::hypot((x.q3_us - x.q1_us) / x.median_us, (y->q3_us - y->q1_us) / y->median_us);
        ++rows;
      }
  constexpr double kLeast = 0.01, kDeviations = 2.0;
  const double seen = kDeviations * s_.archive.error_of_measurements().value_or(0.0);
  return std::max({kLeast, rows > 0 ? spread / rows : 0.0, seen});
}

std::string Speeds::gain(IndividualId a, IndividualId b) const {
  const double fast = s_.archive.fitness(a), slow = s_.archive.fitness(b);
  if (!(fast > 0.0) || !(slow > 0.0)) return "unknown";
  if (const DuelResult* const duel = s_.archive.duel(a); duel && duel->incumbent == b)
    return gain_words(duel->all) + " in a duel";
  if (const auto duels = by_duels(a, b)) return gain_words(duels->all) + " by their duels";
  const double log_ratio = std::log(fast / slow);
  const double noise = this->noise(a, b);
  const std::string basis = fmt::format("one measurement of each, with a noise of {:.0f} %", percent(noise));
  if (std::fabs(log_ratio) <= noise) return "no difference shown by " + basis;
  return fmt::format("{:+.1f} % by {}", percent(log_ratio), basis);
}

// Why a kernel that was faster as a whole did not win: the gate lets no workload become slower.
std::string Speeds::slower_workloads(const DuelResult& duel) const {
  if (duel.verdict != Verdict::worse || duel.all.log_ratio <= 0.0) return {};
  std::vector<std::size_t> slower;
  for (std::size_t w = 0; w < std::min(duel.workloads.size(), s_.workloads.size()); ++w)
    if (duel.workloads[w].log_ratio < 0.0) slower.push_back(w);
  if (slower.empty()) return {};
  std::ranges::sort(slower, {}, [&](std::size_t w) { return duel.workloads[w].log_ratio; });
  std::string words = ", not promoted because it is slower on ";
  constexpr std::size_t kTold = 3;
  for (std::size_t i = 0; i < std::min(slower.size(), kTold); ++i)
    words += fmt::format("{}{} ({:+.1f} %)", i == 0 ? "" : ", ", s_.workloads[slower[i]].name,
                         percent(duel.workloads[slower[i]].log_ratio));
  return words;
}

std::string Speeds::least_gain(IndividualId id, IndividualId beside) const {
  constexpr double kUnequal = 0.05;
  std::size_t worst = 0;
  double least = 1e300, most = 0.0;
  for (std::size_t w = 0; w < s_.workloads.size(); ++w) {
    const double mine = value(id, w), other = value(beside, w);
    if (!(mine > 0.0) || !(other > 0.0)) continue;
    if (mine / other < least) least = mine / other, worst = w;
    most = std::max(most, mine / other);
  }
  const double unclear = by_duels(id, beside) ? 0.0 : noise(id, beside);
  if (!(most > 0.0) || std::log(most / least) <= std::max(kUnequal, unclear)) return {};
  return fmt::format("least on {}: {:+.0f} %", s_.workloads[worst].name, 100.0 * (least - 1.0));
}

std::string Speeds::result(IndividualId id) const {
  std::string words = fmt::format("{:.5g}", s_.archive.fitness(id));
  const auto parents = s_.archive.parents(id);
  const DuelResult* const duel = s_.archive.duel(id);
  if (duel)
    words +=
        fmt::format("; duel with #{}: {}{}", duel->incumbent, gain_words(duel->all), slower_workloads(*duel));
  if (parents.empty() || (duel && duel->incumbent == parents.front())) return words;
  if (!(s_.archive.fitness(parents.front()) > 0.0)) return words;
  return words + fmt::format("; over #{}: {}", parents.front(), gain(id, parents.front()));
}

}  // namespace cultivar
