#include "operators/mutate.hpp"

#include <algorithm>

#include "operators/best_setting.hpp"

namespace cultivar {

const std::vector<Direction>& directions() {
  static const std::vector<Direction> all{
      {"bottleneck", "attack what the measurements show to limit it most, and nothing else", ""},
      {"traffic",
       "move fewer bytes: reuse what is in registers, shared memory or cache, fuse passes, drop stores that "
       "are read back",
       ""},
      {"overlap",
       "hide latency: overlap loads with arithmetic (prefetch, double buffering, software pipelining)", ""},
      {"parallelism",
       "spread the work better: tile shape, how work is dealt out, tails, idle threads or blocks", ""},
      {"arithmetic",
       "spend fewer instructions: cheaper exponentials and divisions, hoisted invariants, fewer conversions",
       ""},
      {"registers", "change how values live in registers: unrolling, accumulators, spills, live ranges", ""},
      {"vector", "use wider vectors: layout, alignment, unit stride, several independent sums", "cpu"},
      {"blocking", "block for the caches: loop order, tile sizes, packing of what is read often", "cpu"},
      {"tensor", "feed the tensor cores better: larger tiles, fewer waits, operands from registers", "cuda"},
      {"memory_system", "use the memory system better: TMA or cp.async, swizzles without bank conflicts",
       "cuda"},
      {"roles", "split roles among warps: producers and consumers, persistence, scheduling of tiles", "cuda"},
      {"knobs",
       "make fixed choices tunable: new tunables with values worth trying, and constraints that keep them "
       "legal",
       ""},
      {"rewrite", "write the core loop anew along another algorithm that suits the device better", ""},
  };
  return all;
}

std::optional<Brief> Mutate::plan(const Surroundings& s, RandomStream& stream) {
  if (s.parents.empty()) return std::nullopt;
  const IndividualId parent = best_setting(s.archive, s.parents.front());
  const std::string& source = s.archive.source_id(parent);
  const std::string_view target = s.facts.contains("num_sms") ? "cuda" : "cpu";
  std::vector<const Direction*> fit;
  int fewest = 1 << 20;
  const auto tries = [&](const Direction& d) {
    const auto found = tried_.find({source, std::string(d.words)});
    return found == tried_.end() ? 0 : found->second;
  };
  for (const Direction& d : directions())
    if (d.target.empty() || d.target == target) {
      fit.push_back(&d);
      fewest = std::min(fewest, tries(d));
    }
  std::erase_if(fit, [&](const Direction* d) { return tries(*d) > fewest; });
  // Half of the first questions about a source follow the measurements.
  const bool first = fit.front() == &directions().front() && uniform(stream) < 0.5;
  const Direction& chosen = first ? *fit.front() : *fit[below(stream, fit.size())];
  Brief brief;
  brief.parents = {parent};
  brief.island = s.island;
  brief.direction = chosen.words;
  return brief;
}

void Mutate::asked(const Brief& brief, const Archive& archive) {
  ++tried_[{archive.source_id(brief.parents.front()), brief.direction}];
}

}  // namespace cultivar
