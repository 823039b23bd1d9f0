// SPDX-License-Identifier: Apache-2.0
// A part of a task's domain as people write it: "R: 1-65536, C: 256-16384 step 8, D: 64-256 step x2"; and
// shapes drawn in it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evaluators/launchers/launcher_parts.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The values of a dimension or parameter up to `to`: from, from + step, ...; or from, from * step, ...
struct ValueRange {
  std::string name;
  double from = 0.0, to = 0.0, step = 1.0;
  bool multiplies = false;

  double after(double value) const { return multiplies ? value * step : value + step; }
  bool has(double value) const { return value >= from && value <= to && nearest(value) == value; }
  double nearest(double value) const;  // one of the range's values
  double count() const;                // of its values, at most 2^53
};

// Of "NAME: FROM-TO step STEP, NAME: VALUE"; `option`, for example "--over", begins the error, which quotes
// what it does not understand.
Expected<std::vector<ValueRange>> parse_ranges(const std::string& option, const std::string& text,
                                               const Task&);

// Numbers with which the source or the manifest of any of these variants may compare a dimension.
std::vector<double> compared_numbers(const std::vector<Variant>&);

// Shapes in the domain, all orders of magnitude of a range equally often; one value in four lies at a number
// with which a kernel compares, or beside it; one in eight is 0 where a range begins there. What the ranges
// do not name is as in `base`, or follows from the others. Equal seeds give equal shapes, however many are
// drawn.
class DomainDraw {
 public:
  // Keeps references to the task and copies of the rest.
  DomainDraw(const Task&, std::vector<ValueRange>, Workload base, std::vector<double> thresholds,
             std::function<bool(const Workload&)> usable, std::uint64_t seed);
  // A legal and usable shape that it did not give before; nullopt: kAttempts in a row were none.
  std::optional<Workload> next();
  static constexpr int kAttempts = 20'000;

 private:
  double value_in(std::size_t range);

  const Task& task_;
  const std::vector<ValueRange> ranges_;
  const Workload base_;
  std::vector<std::vector<double>> at_thresholds_;  // by range: values of it
  const std::function<bool(const Workload&)> usable_;
  RandomStream stream_;
  std::set<std::string> given_;
};

// One workload for each specialization of the ranges that the kernel claims and its workloads do not have.
// What the ranges do not name is as in the first workload. An error if that is too much to try or to build.
Expected<std::vector<Workload>> covered_workloads(const LauncherInput&, const std::vector<ValueRange>&);

}  // namespace cultivar
