// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/shrinking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

constexpr int kMostRuns = 60;
constexpr double kMostSeconds = 4.0;

class Shrinker {
 public:
  Shrinker(Checker& checker, const Task& task, const Compiled& compiled,
           const std::function<bool(const Workload&)>& runs, const DrawnRun& run, Evaluation wrong)
      : checker_(checker),
        task_(task),
        compiled_(compiled),
        runs_(runs),
        smallest_(run),
        why_(std::move(wrong)) {}

  Evaluation shrink() {
    const std::string first = why_.reason;
    const Stage stage = why_.stage;
    simplify_values();
    for (bool changed = true; changed && left();) {
      changed = false;
      std::vector<std::pair<double, std::string>> sizes;
      for (const Dimension& d : task_.dimensions)
        sizes.emplace_back(-smallest_.shape.values.at(d.name), d.name);
      std::ranges::sort(sizes);
      for (const auto& [size, name] : sizes) changed = smaller(name) || changed;
    }
    for (const Parameter& p : task_.parameters) usual(p);
    simplify_values();
    why_.stage = stage;
    if (why_.reason != first)
      why_.diagnostics += fmt::format("This is the smallest failure found; the first one was: {}\n", first);
    return std::move(why_);
  }

 private:
  bool left() const { return tried_ < kMostRuns && seconds_since(begin_) < kMostSeconds; }

  // True if the variant fails there too; the run is then the smallest so far.
  bool fails(const Workload& shape, const CheckValues& values) {
    // The values of a smaller shape are drawn anew, so a second seed is worth a try.
    for (std::uint64_t attempt = 0; attempt < 2 && left(); ++attempt) {
      ++tried_;
      const std::uint64_t seed =
          attempt == 0 ? smallest_.seed : derive_seed(smallest_.seed, "again", attempt);
      auto wrong = checker_.check(Stage::edge, compiled_, shape, seed, values);
      if (!wrong || wrong->host_fault || wrong->late) continue;
      smallest_ = {shape, values, seed};
      why_ = std::move(*wrong);
      return true;
    }
    return false;
  }

  void simplify_values() {
    const CheckValues& now = smallest_.values;
    const bool plain = now.stress == nullptr && !now.mixed && !now.composed;
    const std::uint64_t machine = now.machine;
    if ((plain && machine == 0) || fails(smallest_.shape, {.drawn_shape = true})) return;
    if (plain || machine == 0 || fails(smallest_.shape, {.drawn_shape = true, .machine = machine})) return;
    CheckValues here = now;
    here.machine = 0;
    fails(smallest_.shape, here);
  }

  bool with(const std::string& name, double value) {
    Bindings given = given_values(task_, smallest_.shape);
    given[name] = value;
    const Expected<Workload> made = make_workload(task_, std::move(given), smallest_.shape.dtype, true);
    return made && claims(compiled_.variant, task_, *made) && runs_(*made) && fails(*made, smallest_.values);
  }

  // The least of a few values with which it still fails.
  bool smaller(const std::string& name) {
    const double now = smallest_.shape.values.at(name);
    std::set<double> values;
    for (const double value : {1.0, 2.0, std::floor(now / 16), std::floor(now / 4), std::floor(now / 2),
                               std::floor(now * 0.75), now - 1})
      if (value >= 1 && value < now) values.insert(value);
    for (const double value : values)
      if (left() && with(name, value)) return true;
    return false;
  }

  void usual(const Parameter& p) {
    if (!p.fallback || !left()) return;
    const auto value = p.fallback->evaluate(smallest_.shape.values);
    if (value && *value != smallest_.shape.values.at(p.name)) with(p.name, round_to(p.type, *value));
  }

  Checker& checker_;
  const Task& task_;
  const Compiled& compiled_;
  const std::function<bool(const Workload&)>& runs_;
  DrawnRun smallest_;
  Evaluation why_;
  int tried_ = 0;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

Evaluation shrunk(Checker& checker, const Task& task, const Compiled& compiled,
                  const std::function<bool(const Workload&)>& runs, const DrawnRun& run, Evaluation wrong) {
  if (wrong.host_fault || wrong.late) return wrong;
  return Shrinker(checker, task, compiled, runs, run, std::move(wrong)).shrink();
}

}  // namespace cultivar
