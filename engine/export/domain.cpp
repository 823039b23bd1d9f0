// SPDX-License-Identifier: Apache-2.0
#include "engine/export/domain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

namespace {

// Of ranges with at most so many values each value is drawn equally often: flags, head sizes.
constexpr double kFew = 8.0;

}  // namespace

double ValueRange::nearest(double value) const {
  const double inside = std::clamp(value, from, to);
  if (multiplies) {
    double at = from;
    while (at * step <= to && at * std::sqrt(step) < inside) at *= step;
    return at;
  }
  const double most = std::floor((to - from) / step);
  return from + std::min(most, std::round((inside - from) / step)) * step;
}

double ValueRange::count() const {
  if (!multiplies) return std::floor((to - from) / step) + 1.0;
  double all = 1.0;
  for (double value = from * step; value <= to; value *= step) ++all;
  return all;
}

Expected<std::vector<ValueRange>> parse_ranges(const std::string& option, const std::string& text,
                                               const Task& task) {
  static const std::regex form(
      R"(\s*([A-Za-z_]\w*)\s*:\s*(\d+)\s*(?:-\s*(\d+)\s*(?:step\s+(x?)(\d+)\s*)?)?)");
  const auto wrong = [&](const std::string& what) {
    return failure("", fmt::format("{}: {}", option, what));
  };
  std::vector<ValueRange> ranges;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    std::smatch found;
    if (!std::regex_match(part, found, form))
      return wrong(
          fmt::format("'{}' is not of the form NAME: FROM-TO step STEP, for example "
                      "\"R: 1-65536, C: 256-16384 step 8, D: 64-256 step x2\"",
                      part));
    ValueRange range{.name = found[1], .from = std::stod(found[2])};
    range.to = found[3].matched ? std::stod(found[3]) : range.from;
    if (found[5].matched) range.step = std::stod(found[5]);
    range.multiplies = found[4].length() > 0;
    const auto is = [&](const auto& each) { return each.name == range.name; };
    if (std::ranges::none_of(task.dimensions, is) && std::ranges::none_of(task.parameters, is))
      return wrong(fmt::format("the task {} has no dimension or parameter {}", task.name, range.name));
    if (range.to < range.from || range.step < 1.0) return wrong(fmt::format("'{}' holds no value", part));
    if (range.multiplies && (range.step < 2.0 || range.from < 1.0))
      return wrong(fmt::format("'{}' never ends: begin at 1 or more, and multiply by 2 or more", part));
    if (std::ranges::any_of(ranges, is)) return wrong(fmt::format("{} is there twice", range.name));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

std::vector<double> compared_numbers(const std::vector<Variant>& variants) {
  std::set<double> all;
  for (const Variant& variant : variants)
    for (const std::int64_t number : source_numbers(variant).compared)
      all.insert(static_cast<double>(number));
  return {all.begin(), all.end()};
}

DomainDraw::DomainDraw(const Task& task, std::vector<ValueRange> ranges, Workload base,
                       std::vector<double> thresholds, std::function<bool(const Workload&)> usable,
                       std::uint64_t seed)
    : task_(task),
      ranges_(std::move(ranges)),
      base_(std::move(base)),
      usable_(std::move(usable)),
      stream_(stream_of(seed, "shapes of a domain", 0)) {
  for (const ValueRange& range : ranges_) {
    std::set<double> values;
    for (const double number : thresholds)
      for (const double beside : {number - range.step, number, number + range.step})
        if (range.count() > kFew && beside >= range.from && beside <= range.to)
          values.insert(range.nearest(beside));
    at_thresholds_.emplace_back(values.begin(), values.end());
  }
}

double DomainDraw::value_in(std::size_t r) {
  const ValueRange& range = ranges_[r];
  const std::vector<double>& thresholds = at_thresholds_[r];
  if (range.count() <= kFew) {
    double value = range.from;
    for (std::size_t i = below(stream_, static_cast<std::size_t>(range.count())); i > 0; --i)
      value = range.after(value);
    return value;
  }
  if (!thresholds.empty() && below(stream_, 4) == 0) return thresholds[below(stream_, thresholds.size())];
  if (range.from == 0.0 && below(stream_, 8) == 0) return 0.0;
  const double least = std::max(range.from, 1.0);
  return range.nearest(least * std::pow(range.to / least, uniform(stream_)));
}

std::optional<Workload> DomainDraw::next() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Bindings given = given_values(task_, base_);
    for (std::size_t r = 0; r < ranges_.size(); ++r) given[ranges_[r].name] = value_in(r);
    Expected<Workload> made = make_workload(task_, std::move(given), base_.dtype, true);
    if (!made || given_.contains(made->name) || !usable_(*made)) continue;
    given_.insert(made->name);
    return *made;
  }
  return std::nullopt;
}

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
