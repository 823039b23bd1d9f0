// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/coverage_draws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_checks.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/lines.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/system/secret.hpp"
#include "evaluators/task/make_workload.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

constexpr int kLinesBefore = 6;  // a block, in which its condition stands
constexpr std::size_t kMostNumbers = 24, kRandomShapes = 12;
constexpr std::int64_t kGreatestNumber = std::int64_t{1} << 31;
constexpr double kMostBytes = 256.0 * (1 << 20);  // of a shape with a number of the source as a dimension

class BlockHunt {
 public:
  BlockHunt(Checker& checker, CheckBuildRuns& runs, const CascadeSite& site, const EvaluateRequest& request,
            std::uint64_t seed)
      : checker_(checker),
        runs_(runs),
        site_(site),
        request_(request),
        seed_(seed),
        stream_(stream_of(seed, "unreached blocks", 0)) {}

  std::optional<Evaluation> run() {
    const std::vector<BlocksRun::Macros> incomplete = runs_.blocks().incomplete();
    for (std::size_t i = 0; i < incomplete.size(); ++i) {
      own_ = &incomplete[i];
      // What one specialisation leaves goes to the others.
      const double left = static_cast<double>(incomplete.size() - i);
      most_runs_ = runs_.drawn_runs + static_cast<int>((kMostDrawnForBlocks - runs_.drawn_runs) / left);
      const double now = seconds_since(start_);
      most_seconds_ = now + (kDrawnForBlocksSeconds - now) / left;
      if (auto wrong = hunt()) return wrong;
    }
    return std::nullopt;
  }

 private:
  bool over() const { return runs_.drawn_runs >= most_runs_ || seconds_since(start_) > most_seconds_; }
  bool done() const { return over() || runs_.blocks().complete(*own_); }

  bool usable(const Workload& w) const {
    const Variant& variant = request_.variant.variant;
    return claims(variant, site_.task, w) && macros(variant, site_.task, w) == *own_ &&
           is_legal(variant, site_.task, w, site_.device.facts());
  }

  // The shapes of this specialisation that are known, cheapest first.
  std::vector<Workload> known() const {
    std::vector<Workload> all;
    const auto add = [&](const std::vector<Workload>& some) {
      std::ranges::copy_if(some, std::back_inserter(all), [&](const Workload& w) { return usable(w); });
    };
    for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
      add(claimed_shapes(site_.task, stage, request_.variant.variant));
    add(request_.variant.drawn);
    if (all.empty()) add(request_.workloads);
    if (all.empty()) add(holdout_workloads(site_.task, request_.variant.variant));
    std::ranges::stable_sort(all, {}, [&](const Workload& w) { return site_.task.flops(w); });
    return all;
  }

  std::optional<Evaluation> check(const Workload& w, const CheckValues& values) {
    site_.progress({Stage::confirm, {}, fmt::format("confirm {}: blocks that have not run", w.name)});
    const auto index = static_cast<std::uint64_t>(runs_.drawn_runs++);
    return checker_.check(Stage::confirm, request_.variant, w, derive_seed(seed_, "run", index), values);
  }

  std::optional<Evaluation> hunt() {
    const std::vector<Workload> around = known();
    if (around.empty()) return std::nullopt;
    std::vector<const Workload*> bases{&around.front()};
    if (around.size() > 1) bases.push_back(&around.back());
    for (const Workload* base : bases)
      for (const StressCase& stress : site_.task.stress) {
        if (done()) return std::nullopt;
        if (!applies(site_.task, stress, *base)) continue;
        if (auto wrong = check(*base, {.stress = &stress})) return wrong;
      }
    for (const Workload& w : at_numbers(around.front())) {
      if (done()) return std::nullopt;
      if (auto wrong = check(w, {.drawn_shape = true})) return wrong;
    }
    for (const Workload& w : draw_shapes(
             site_.task, request_.variant.variant, around, limits_of(site_.task, around, 2.0), kRandomShapes,
             derive_seed(seed_, "shapes"), [&](const Workload& w) { return usable(w); })) {
      if (done()) return std::nullopt;
      const std::size_t choice = below(stream_, site_.task.stress.size() + 2);
      CheckValues values{.mixed = choice == 0, .drawn_shape = true};
      if (choice >= 2 && applies(site_.task, site_.task.stress[choice - 2], w))
        values.stress = &site_.task.stress[choice - 2];
      if (auto wrong = check(w, values)) return wrong;
    }
    return std::nullopt;
  }

  // The shape with each dimension or amount in turn at, above and below each number near the blocks.
  std::vector<Workload> at_numbers(const Workload& base) const {
    std::vector<Workload> shapes;
    const std::vector<std::int64_t> numbers =
        numbers_near(request_.variant.variant.source, runs_.blocks().unreached(*own_));
    std::vector<std::string> names;
    for (const Dimension& d : site_.task.dimensions) names.push_back(d.name);
    for (const Parameter& p : site_.task.parameters)
      if (!p.flag && !is_floating(p.type)) names.push_back(p.name);
    std::vector<Workload> limiting = request_.workloads;
    limiting.push_back(base);
    ShapeLimits limits = limits_of(site_.task, limiting, 2.0);
    limits.bytes = std::min(limits.bytes, kMostBytes);
    for (const std::int64_t number : numbers)
      for (const std::int64_t beside : {0, 1, -1})
        for (const std::string& name : names) {
          Bindings given = given_values(site_.task, base);
          given[name] = static_cast<double>(number + beside);
          const Expected<Workload> made = make_workload(site_.task, given, base.dtype, true);
          if (!made || !usable(*made)) continue;
          const std::vector<Workload> one{*made};
          const ShapeLimits own = limits_of(site_.task, one, 1.0);
          if (own.flops > limits.flops || own.bytes > limits.bytes) continue;
          shapes.push_back(*made);
        }
    return shapes;
  }

  Checker& checker_;
  CheckBuildRuns& runs_;
  const CascadeSite& site_;
  const EvaluateRequest& request_;
  std::uint64_t seed_;
  mutable RandomStream stream_;
  const BlocksRun::Macros* own_ = nullptr;
  int most_runs_ = 0;  // with those of the specialisations before
  double most_seconds_ = 0.0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::vector<std::int64_t> numbers_near(std::string_view source, const std::vector<CodeBlock>& blocks) {
  const SourceFiles files = split_source(source);
  const CommentSyntax& comments = comments_in(source);
  std::vector<std::int64_t> numbers;
  for (int before = 0; before <= kLinesBefore; ++before)
    for (const CodeBlock& block : blocks) {
      std::string_view text = files.main;
      for (const HeaderFile& header : files.headers)
        if (header.name == block.file) text = header.text;
      const std::vector<std::string_view> lines = lines_of(text);
      const int first = std::max(block.first_line - before, 1),
                last = before == 0 ? block.last_line : block.first_line - before;
      for (int line = first; line <= last && line <= static_cast<int>(lines.size()); ++line)
        for (const std::int64_t number : literals_in(lines[static_cast<std::size_t>(line - 1)], comments))
          if (number <= kGreatestNumber && std::ranges::find(numbers, number) == numbers.end())
            numbers.push_back(number);
    }
  if (numbers.size() > kMostNumbers) numbers.resize(kMostNumbers);
  return numbers;
}

std::optional<Evaluation> check_unreached_blocks(Checker& checker, CheckBuildRuns& runs,
                                                 const CascadeSite& site, const EvaluateRequest& request,
                                                 std::uint64_t seed) {
  return BlockHunt(checker, runs, site, request, seed).run();
}

}  // namespace cultivar
