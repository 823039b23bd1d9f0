// SPDX-License-Identifier: Apache-2.0
#include "operators/mutate.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "evaluators/timing/roofline.hpp"
#include "operators/prompts/idea_pieces.hpp"
#include "operators/reply.hpp"
#include "population/archive.hpp"

namespace cultivar {

namespace {

constexpr std::string_view kBottleneck =
    "attack what the measurements show to limit it most, and nothing else";
// In records, which are compared with it, and in lists of ideas: what is told on a host begins with the same
// words.
constexpr std::string_view kTraffic =
    "move fewer bytes: reuse what is in registers, shared memory or cache, fuse passes, drop stores that are "
    "read back";
constexpr std::string_view kArithmetic =
    "spend fewer instructions: cheaper exponentials and divisions, hoisted invariants, fewer conversions";
constexpr std::string_view kTunables =
    "make fixed choices tunable: new tunables with values worth trying, and constraints that keep them legal";
constexpr std::string_view kParallelism =
    "spread the work better: tile shape, how work is dealt out, tails, idle threads or blocks";

std::string told(const std::string& direction, const PromptContext& s) {
  const Target target = s.target;
  if (target->on_host && direction == kTraffic)
    return "move fewer bytes: reuse what is in registers or cache, fuse passes, drop stores that are read "
           "back";
  const auto cores = s.facts.find("num_cores");
  if (target->on_host && direction == kParallelism && cores != s.facts.end() && cores->second <= 1.0)
    return "spread the work better, over time on this one core: tile shape, tails, what is computed while "
           "its data is in cache";
  if (target->on_host && direction == kParallelism)
    return "spread the work better: tile shape, how work is dealt out to threads, tails, idle threads";
  if (direction == kTunables)
    return direction +
           "; let the defaults differ from what the code does now: an unchanged kernel is a repetition";
  return direction;
}

// A direction that does not name the limit which the measurements show gets a second sentence that does.
std::string direction_of(const Brief& brief, const PromptWriter& to) {
  const std::string direction = told(brief.direction, to.context());
  const std::optional<Finding> limit = to.limit();
  if (!limit) return direction;
  constexpr double kPlain = 0.5;  // least weight of a limit that overrules a direction
  if (limit->weight < kPlain || brief.direction == kBottleneck) return direction;
  return fmt::format(
      "{}. Measured limit: {} [{}]. If this direction does not act on that limit, act on the limit instead, "
      "and say so in `IDEA: `",
      direction, limit->words, limit->kind);
}

// The suggested size of a change: a rewrite if the kernel is far from the peak, a small change if it is near.
// A strategy of `plan` and new tunables have a size of their own.
std::string reach(const Brief& brief, const PromptWriter& from) {
  const PromptContext& s = from.context();
  const std::optional<Evaluation>& evaluation = from.evaluation();
  const std::vector<double>& floors_us = from.floors_us();
  constexpr double kFar = 0.5, kNear = 0.6, kFarBehind = 0.5, kBeside = 0.9;
  double logs = 0.0;
  int rows = 0;
  if (evaluation && evaluation->measured() && floors_us.size() == s.workloads.size())
    for (std::size_t i = 0; i < s.workloads.size(); ++i)
      for (const WorkloadResult& row : evaluation->workloads)
        if (row.workload == s.workloads[i].name && row.median_us > 0.0)
          logs += std::log(floors_us[i] / row.median_us), ++rows;
  // Share of the roofline as in the table; and at the pace of the search's start, as fitness is. 0: unknown.
  const double seen = rows > 0 ? std::exp(logs / rows) : 0.0;
  const double fitness = s.archive.fitness(from.subject());
  const double pace =
      rows > 0 && fitness > 0.0 && evaluation->fitness > 0.0 ? evaluation->fitness / fitness : 1.0;
  const double share = seen / pace;
  const double best = s.incumbent == 0 ? 0.0 : s.archive.fitness(s.incumbent);
  const double beside = best > 0.0 ? s.archive.fitness(from.subject()) / best : 1.0;
  std::string where;
  if (share > 0.0)
    where = fmt::format("It reaches {} of the device's measured peak (geometric mean)", share_in_words(seen));
  if (beside < kBeside)
    where += fmt::format("{} {:.0f} % of the best", where.empty() ? "It reaches" : " and", 100 * beside);
  where += where.empty() ? "" : ". ";
  const std::vector<Direction> known = directions(s.target);
  const auto own = std::ranges::find(known, brief.direction, &Direction::words);
  if (own == known.end() || own->name == "knobs")
    return where + "One change means one idea, fully implemented.";
  if ((share > 0.0 && share < kFar) || beside < kFarBehind)
    return where +
           "That is far from the peak: be bold, and rewrite the core if the idea needs it. One idea may "
           "affect all of the code.";
  if (share >= kNear && beside >= kBeside)
    return where + "That is near the peak: change only what serves this direction.";
  return where + "One change means one idea, fully implemented.";
}

// Whether kernels may have so many operations to do for each byte that the ordinary arithmetic units limit
// them: an H100 without its tensor cores does about 18 operations in f32 in the time in which it moves a
// byte.
bool much_arithmetic(const Task& task, const std::vector<Workload>& workloads) {
  constexpr double kLeast = 10.0;  // less than 18, because other units of a kernel work, too
  return !task.cost.flops || std::ranges::any_of(workloads, [&](const Workload& w) {
    return task.flops(w) >= kLeast * task.bytes(w);
  });
}

}  // namespace

std::vector<Direction> directions(Target target) {
  std::vector<Direction> all{
      {"bottleneck", kBottleneck},
      {"traffic", kTraffic},
      {"overlap",
       "hide latency: overlap loads with arithmetic (prefetch, double buffering, software pipelining)"},
      {"parallelism", kParallelism},
      {"arithmetic", kArithmetic},
      {"registers", "change how values live in registers: unrolling, accumulators, spills, live ranges"}};
  all.insert(all.end(), target->directions.begin(), target->directions.end());
  all.push_back({"knobs", kTunables});
  all.push_back({"rewrite", "write the core loop anew along another algorithm that suits the device better"});
  return all;
}

std::optional<Brief> Mutate::plan(const OperatorContext& s, RandomStream& stream) {
  if (s.parents.empty()) return std::nullopt;
  if (auto brief = given_.next(s)) return brief;
  const IndividualId parent = best_setting(s.archive, s.parents.front());
  const std::string& source = s.archive.source_id(parent);
  std::vector<Direction> all = directions(s.target);
  if (s.apt_directions && !much_arithmetic(s.task, s.workloads)) {
    std::erase_if(all, [](const Direction& d) { return d.much_arithmetic; });
    if (s.limited_by_bytes && !s.target->on_host)
      std::erase_if(all, [](const Direction& d) { return d.words == kArithmetic; });
  }
  std::vector<const Direction*> fit;
  int fewest = 1 << 20;
  const auto tries = [&](const Direction& d) {
    const auto found = tried_.find({source, std::string(d.words)});
    return found == tried_.end() ? 0 : found->second;
  };
  const bool others = std::ranges::any_of(
      all, [&](const Direction& d) { return !s.avoid_directions.contains(std::string(d.words)); });
  for (const Direction& d : all) {
    if (others && s.avoid_directions.contains(std::string(d.words))) continue;
    fit.push_back(&d);
    fewest = std::min(fewest, tries(d));
  }
  std::erase_if(fit, [&](const Direction* d) { return tries(*d) > fewest; });
  // Half of the first questions about a source use the direction that follows the measurements.
  const bool first = fit.front() == &all.front() && uniform(stream) < 0.5;
  const Direction& chosen = first ? *fit.front() : *fit[below(stream, fit.size())];
  Brief brief;
  brief.parents = {parent};
  brief.island = s.island;
  brief.direction = chosen.words;
  return brief;
}

void Mutate::directed(IndividualId subject, const Directions& given) {
  given_.replace(subject, given);
}

void Mutate::asked(const Brief& brief, const Archive& archive) {
  given_.asked(brief.direction);
  ++tried_[{archive.source_id(brief.parents.front()), brief.direction}];
}

void Mutate::write(const Brief& brief, PromptWriter& to) const {
  add_subject(to);
  add_other_families(to);
  to.add_lineage();
  to.add_failures();
  add_ideas(to);
  to.add_notes();
  to.add("direction", direction_of(brief, to), 0);
  to.add("reach", reach(brief, to), 0);
  to.add_answer();
}

Move Mutate::next(const Conversation& conversation) const {
  return edit_move(conversation);
}

}  // namespace cultivar
