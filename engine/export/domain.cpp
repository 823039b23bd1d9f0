// SPDX-License-Identifier: Apache-2.0
#include "engine/export/domain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "evaluators/judge/source_numbers.hpp"
#include "evaluators/task/make_workload.hpp"

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

}  // namespace cultivar
