// SPDX-License-Identifier: Apache-2.0
#include "engine/export/cover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluators/task/make_workload.hpp"

namespace cultivar {
namespace {

constexpr double kMostTried = 200'000;   // combinations of values; each takes some tens of microseconds
constexpr std::size_t kMostBuilt = 256;  // specializations; each is compiled

// The dimensions and parameters on which a name depends, through `let`.
void roots_of(const std::string& name, const Task& task, const Manifest& manifest,
              std::set<std::string>& roots, std::set<std::string>& seen) {
  if (!seen.insert(name).second) return;
  const auto is = [&](const auto& each) { return each.name == name; };
  if (std::ranges::any_of(task.dimensions, is) || std::ranges::any_of(task.parameters, is))
    roots.insert(name);
  for (const auto* lets : {&task.let, &manifest.let})
    for (const auto& [let, expression] : *lets)
      if (let == name)
        for (const std::string& each : expression.names()) roots_of(each, task, manifest, roots, seen);
}

}  // namespace

Expected<std::vector<Workload>> covered_workloads(const LauncherInput& input,
                                                  const std::vector<ValueRange>& ranges) {
  const Task& task = input.task;
  std::set<std::string> roots, seen;
  for (const std::string& name : input.variant.manifest.specialize)
    roots_of(name, task, input.variant.manifest, roots, seen);
  std::set<std::vector<std::string>> known;
  for (const Workload& workload : input.workloads) known.insert(macros(input.variant, task, workload));
  // What decides nothing has one value, or its last one where the kernel does not claim the first.
  std::vector<std::vector<double>> values;
  double tried = 1.0;
  for (const ValueRange& range : ranges) {
    auto& all = values.emplace_back();
    if (!roots.contains(range.name)) {
      all =
          range.to > range.from ? std::vector<double>{range.from, range.to} : std::vector<double>{range.from};
    } else {
      if (range.count() > kMostTried)
        tried = kMostTried + 1;
      else
        for (double value = range.from; value <= range.to; value = range.after(value)) all.push_back(value);
    }
    tried *= static_cast<double>(std::max<std::size_t>(1, all.size()));
  }
  if (tried > kMostTried)
    return failure(
        "export",
        fmt::format("--cover: more than {:.0f} combinations of values would have to be tried: take larger "
                    "steps, or smaller ranges",
                    kMostTried));
  std::vector<Workload> found;
  std::vector<std::size_t> at(ranges.size(), 0);
  for (bool more = true; more;) {
    Bindings given = given_values(task, input.workloads.front());
    for (std::size_t r = 0; r < ranges.size(); ++r) given[ranges[r].name] = values[r][at[r]];
    if (auto workload = make_workload(task, given, input.workloads.front().dtype, true);
        workload && claims(input.variant, task, *workload) &&
        check_constraints(input.variant, task, *workload, input.facts) &&
        known.insert(macros(input.variant, task, *workload)).second)
      found.push_back(std::move(*workload));
    if (found.size() > kMostBuilt)
      return failure(
          "export",
          fmt::format("--cover: more than {} specializations would be built: cover less; others are compiled "
                      "when they are needed",
                      kMostBuilt));
    more = false;
    for (std::size_t r = 0; r < ranges.size() && !more; ++r) {
      more = ++at[r] < values[r].size();
      if (!more) at[r] = 0;
    }
  }
  return found;
}

}  // namespace cultivar
