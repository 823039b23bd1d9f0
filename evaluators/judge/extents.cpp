// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/extents.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

// Whether some output has this dimension, or lacks it.
bool has_outputs(const Task& task, const Dimension& d, bool with) {
  return std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
    return tensor.role == Role::output && (std::ranges::count(tensor.shape, d.name) > 0) == with;
  });
}

}  // namespace

bool is_indexed(const Task& task, const std::string& name) {
  return std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
    return tensor.role == Role::input && is_whole(tensor.fill.kind) && tensor.fill.b_of &&
           std::ranges::count(tensor.fill.b_of->names(), name) > 0;
  });
}

std::map<std::string, double> listed_sums(const Task& task) {
  std::map<std::string, double> greatest;
  for (const Dimension& d : task.dimensions)
    if (!is_indexed(task, d.name) && has_outputs(task, d, false))
      for_each_listed(task, [&](const Workload& w) {
        greatest[d.name] = std::max(greatest[d.name], w.values.at(d.name));
      });
  return greatest;
}

std::map<std::string, double> longest_sums(const Task& task) {
  constexpr double kSummedByAll = 4.0, kSummedBySome = 16.0;  // times the greatest listed
  std::map<std::string, double> most = listed_sums(task);
  for (const Dimension& d : task.dimensions)
    if (most.contains(d.name)) most[d.name] *= has_outputs(task, d, true) ? kSummedBySome : kSummedByAll;
  return most;
}

std::map<std::string, double> accepted_extents(const Task& task) {
  std::map<std::string, double> most = longest_extents(task);
  for (const auto& [dimension, sum] : longest_sums(task)) most[dimension] = sum;
  return most;
}

std::map<std::string, std::pair<double, double>> checked_parameters(const Task& task) {
  std::map<std::string, std::pair<double, double>> checked;
  for (const Parameter& p : task.parameters) {
    if (p.flag) continue;
    if (p.range) {
      checked[p.name] = *p.range;
    } else if (const auto amounts = amounts_of(task, p)) {
      checked[p.name] = *amounts;
      // An amount that excludes nothing is drawn as well, and shapes limit what lies between
      // (drawn_shapes.cpp).
      if (p.type == Dtype::i32) checked[p.name].second = std::numeric_limits<std::int32_t>::max();
    } else {
      const double near = is_floating(p.type) && !p.optional ? 2.0 : 1.0;
      for_each_listed(task, [&](const Workload& w) {
        const double value = w.values.at(p.name);
        const auto [least, greatest] = std::minmax({value / near, value * near});
        const auto [at, is_first] = checked.try_emplace(p.name, least, greatest);
        if (!is_first)
          at->second = {std::min(at->second.first, least), std::max(at->second.second, greatest)};
      });
    }
  }
  return checked;
}

double wider_errors(const Task& task, const Workload& workload,
                    const std::map<std::string, double>& listed_sums) {
  constexpr double kManyElements = 0x1p22, kOfMany = 1.25;
  double wider = 1.0, elements = 0.0;
  for (const auto& [dimension, greatest] : listed_sums)
    wider *= std::sqrt(std::max(1.0, workload.values.at(dimension) / greatest));
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::output) continue;
    double count = 1.0;
    for (const std::int64_t extent : task.shape(tensor, workload)) count *= static_cast<double>(extent);
    elements = std::max(elements, count);
  }
  return elements > kManyElements ? wider * kOfMany : wider;
}

std::map<std::string, double> longest_extents(const Task& task) {
  const std::map<std::string, double> sums = longest_sums(task);
  std::map<std::string, double> longest;
  for (const Dimension& d : task.dimensions) {
    double greatest = 1.0;
    for_each_listed(task, [&](const Workload& w) { greatest = std::max(greatest, w.values.at(d.name)); });
    // Beyond tiles whose number 16 bits do not hold, where sums may be so long.
    longest[d.name] = sums.contains(d.name) ? 4.0 * greatest : std::max(4.0 * greatest, 0x1p21);
  }
  return longest;
}

// Those of which every output has a row for each value.
std::vector<std::pair<std::string, double>> far_dimensions(const Task& task) {
  std::vector<std::pair<std::string, double>> growing;
  for (const std::string& name : task.rows) {
    if (std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
          return tensor.role == Role::output && tensor.rows &&
                 std::ranges::find(*tensor.rows, name) == tensor.rows->end();
        }))
      continue;
    double greatest = 0.0;
    for_each_listed(task, [&](const Workload& w) { greatest = std::max(greatest, w.values.at(name)); });
    growing.emplace_back(name, greatest);
  }
  return growing;
}

std::string repeated_dimension(const Task& task) {
  for (const std::string& name : task.rows) {
    const bool usable = std::ranges::all_of(task.tensors, [&](const TensorSpec& tensor) {
      const auto times = std::ranges::count(tensor.shape, name);
      if (times > 1 || (times == 1 && tensor.shape.front() != name)) return false;
      if (tensor.role == Role::input) return true;
      return times == 1 && (!tensor.rows || std::ranges::find(*tensor.rows, name) != tensor.rows->end());
    });
    if (usable) return name;
  }
  return {};
}

std::map<std::string, std::int64_t> most_elements(const Task& task, const Workload& workload,
                                                  std::int64_t largest) {
  const std::string repeated = repeated_dimension(task);
  std::map<std::string, std::int64_t> most;
  for (const TensorSpec& tensor : task.tensors) {
    std::int64_t& of_tensor = most[tensor.name];
    of_tensor = kUncheckedBytes / static_cast<std::int64_t>(size_of(task.dtype(tensor, workload)));
    if (!repeated.empty() && std::ranges::count(tensor.shape, repeated) > 0)
      of_tensor = std::max(of_tensor, largest);
  }
  return most;
}

std::optional<std::pair<double, double>> amounts_of(const Task& task, const Parameter& p) {
  if (p.flag || (is_floating(p.type) && !p.optional)) return std::nullopt;
  std::set<double> all, given;
  for_each_listed(task, [&](const Workload& w) {
    all.insert(w.values.at(p.name));
    if (given_values(task, w).contains(p.name)) given.insert(w.values.at(p.name));
  });
  const auto consecutive = [&] { return *all.rbegin() - *all.begin() < static_cast<double>(all.size()); };
  if (given.empty() || (!is_floating(p.type) && consecutive())) return std::nullopt;
  double least = *given.begin(), greatest = *given.rbegin();
  if (given.size() == 1)
    std::tie(least, greatest) = std::minmax({*given.begin() / 2.0, *given.begin() * 2.0});
  if (!is_floating(p.type)) least = std::ceil(least), greatest = std::floor(greatest);
  return std::pair{least, greatest};
}

}  // namespace cultivar
