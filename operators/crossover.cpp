// SPDX-License-Identifier: Apache-2.0
#include "operators/crossover.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <set>

#include "operators/prompts/compact_report.hpp"
#include "operators/prompts/idea_pieces.hpp"
#include "operators/reply.hpp"
#include "population/archive.hpp"
#include "population/individual.hpp"

namespace cultivar {

namespace {

const double kSame = std::log(1.02);  // a smaller difference of speeds is no reason to take anything over

// Of the first kernel over the second. `faster`: the one that the ratio shows to be faster; 0: neither.
std::string difference_words(const SpeedRatio& ratio, IndividualId first, IndividualId faster,
                             bool by_duels) {
  if (!by_duels)
    return faster == 0
               ? "neither"
               : fmt::format("#{} by {:.1f} %", faster, 100.0 * std::expm1(std::fabs(ratio.log_ratio)));
  if (faster == 0) return fmt::format("not shown (#{}: {})", first, gain_words(ratio));
  return fmt::format(
      "#{}: {}", faster,
      gain_words(faster == first ? ratio : SpeedRatio{-ratio.log_ratio, -ratio.upper, -ratio.lower}));
}

// The second kernel, and which of the two is faster on each workload.
void add_partner(const Brief& brief, PromptWriter& to) {
  const PromptContext& s = to.context();
  const IndividualId first = brief.parents.at(0), second = brief.parents.at(1);
  to.add("partner", to.kernel_text(second), 0);
  const auto a = s.record_view.evaluation(first), b = s.record_view.evaluation(second);
  if (!a || !b) return;
  const auto duels = to.speeds().by_duels(first, second);
  const double noise = duels ? 0.0 : to.speeds().noise(first, second);
  int rows = 0, ahead = 0, behind = 0;
  std::string table = fmt::format("| workload | #{} | #{} | faster |\n|---|---|---|---|\n", first, second);
  for (std::size_t i = 0; i < s.workloads.size(); ++i) {
    const Workload& w = s.workloads[i];
    const auto row = [&](const Evaluation& e) -> const WorkloadResult* {
      for (const WorkloadResult& r : e.workloads)
        if (r.workload == w.name) return &r;
      return nullptr;
    };
    const WorkloadResult *one = row(*a), *two = row(*b);
    if (!one || !two || !(one->median_us > 0) || !(two->median_us > 0)) continue;
    // At one pace of the machine, so that the columns are in the ratio that the last one gives.
    const double left = to.speeds().value(first, i), right = to.speeds().value(second, i);
    if (!(left > 0.0) || !(right > 0.0)) continue;
    SpeedRatio ratio{std::log(left / right), std::log(left / right) - noise, std::log(left / right) + noise};
    if (duels) ratio = i < duels->workloads.size() ? duels->workloads[i] : SpeedRatio{ratio.log_ratio};
    ++rows;
    const IndividualId faster = ratio.log_ratio > kSame && ratio.lower > 0.0    ? first
                                : ratio.log_ratio < -kSame && ratio.upper < 0.0 ? second
                                                                                : 0;
    ahead += faster == first ? 1 : 0;
    behind += faster == second ? 1 : 0;
    table += fmt::format("| {} | {:.4g} {} | {:.4g} {} | {} |\n", w.name, left, one->unit, right, two->unit,
                         difference_words(ratio, first, faster, duels.has_value()));
  }
  table += duels ? "\nThe last column follows from duels, timed side by side, with their bounds.\n"
                 : fmt::format(
                       "\nThe last column compares one measurement of each; it names a kernel only beyond "
                       "their noise of {:.0f} %.\n",
                       100.0 * std::expm1(std::max(kSame, noise)));
  to.add("comparison", table, 0, "comparison");
  if (rows > 0 && ahead == 0 && behind == 0) to.add("same", "yes", 0);
  if (ahead == 0 && behind > 0) to.add("behind", "yes", 0);
  if (ahead > 0 && behind == 0) to.add("ahead", "yes", 0);
  if (const auto profile = s.record_view.profile(second))
    to.add("comparison",
           fmt::format("The bottlenecks of #{}:\n\n{}", second,
                       fmt::join(compact_report(*profile, nullptr), "\n")),
           3, "report of the second");
}

// Whether duels show that one of the two is faster on each of several workloads: then the other one has no
// speed to give.
bool one_sided(const Archive& archive, IndividualId first, IndividualId second) {
  const auto speed = speed_by_duels(archive, first, second);
  if (!speed || speed->workloads.size() < 2) return false;
  return std::ranges::all_of(speed->workloads, [](const SpeedRatio& w) { return w.lower > 0.0; }) ||
         std::ranges::all_of(speed->workloads, [](const SpeedRatio& w) { return w.upper < 0.0; });
}

// Whether duels show that the two differ on a workload, and do not show one of them to be faster everywhere.
bool differ(const Archive& archive, IndividualId first, IndividualId second) {
  const auto speed = speed_by_duels(archive, first, second);
  const auto shown = [](const SpeedRatio& w) { return w.lower > 0.0 || w.upper < 0.0; };
  return speed && std::ranges::any_of(speed->workloads, shown) && !one_sided(archive, first, second);
}

}  // namespace

std::optional<Brief> Crossover::plan(const OperatorContext& s, RandomStream&) {
  if (s.parents.empty()) return std::nullopt;
  const std::string& first = s.archive.source_id(s.parents.front());
  const auto fits = [&](const std::string& source) {
    return source != first && !tried_.contains({first, source});
  };
  const ParentsOf parents_of = [&](IndividualId id) { return s.archive.parents(id); };
  // Selection often returns two parents with the same source, because tuning produces many: then the second
  // parent is the fittest with another source.
  IndividualId partner = s.parents.size() > 1 && fits(s.archive.source_id(s.parents[1]))
                             ? best_setting(s.archive, s.parents[1])
                             : fittest_of(s.archive, fits);
  const auto kin = [&](IndividualId id) {
    return s.kin_apart && in_one_line(s.parents.front(), id, parents_of);
  };
  const IndividualId edited = best_setting(s.archive, s.parents.front());
  const auto unwanted = [&](IndividualId other) {
    return s.frugal ? !differ(s.archive, edited, other)
                    : s.mutual_gain && one_sided(s.archive, edited, other);
  };
  if (partner != 0 && unwanted(partner)) {
    constexpr int kOthers = 8;  // that are looked at, fittest first
    std::set<std::string> seen;
    for (int i = 0; i < kOthers; ++i) {
      const IndividualId other = fittest_of(
          s.archive, [&](const std::string& source) { return fits(source) && !seen.contains(source); });
      if (other == 0) break;
      if (!kin(other) && !unwanted(other)) {
        partner = other;
        break;
      }
      seen.insert(s.archive.source_id(other));
    }
  }
  if (partner == 0 || kin(partner) || (s.frugal && unwanted(partner))) return std::nullopt;
  Brief brief;
  brief.parents = {edited, partner};
  brief.island = s.island;
  brief.direction = "one kernel with what each of the two does better";
  return brief;
}

void Crossover::asked(const Brief& brief, const Archive& archive) {
  ++tried_[{archive.source_id(brief.parents.at(0)), archive.source_id(brief.parents.at(1))}];
}

void Crossover::write(const Brief& brief, PromptWriter& to) const {
  add_insights(to);
  to.add_kernel();
  to.add_measurements();
  add_tried_values(to);
  add_partner(brief, to);
  to.add_report();
  to.add_standing();
  to.add_lineage();
  to.add_failures();
  add_ideas(to);
  to.add_notes();
  to.add("direction", brief.direction, 0);
  to.add_answer();
}

Move Crossover::next(const Conversation& conversation) const {
  return edit_move(conversation);
}

}  // namespace cultivar
