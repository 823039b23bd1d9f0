// SPDX-License-Identifier: Apache-2.0
// A dispatch table that was learnt over a domain, and what it is worth on shapes that were drawn after it was
// fitted: plain data, with its JSON.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/export/dispatch_table.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Medians of interleaved runs on one shape, in seconds; every timed output was checked.
struct ShapeTimes {
  std::string shape = {};                       // its name
  Bindings values = {};                         // of dimensions and parameters
  std::map<IndividualId, double> kernels = {};  // of those that serve it
  std::map<std::string, double> contenders = {};
  std::map<IndividualId, std::string> failed = {};  // kernels that failed by their own fault, with the reason
  std::string left_out = {};                        // why it does not count; empty: it does
  double spent_s = 0.0;                             // wall time of the measurement, with its compilation
};
void to_json(nlohmann::json&, const ShapeTimes&);
void from_json(const nlohmann::json&, ShapeTimes&);  // throws nlohmann::json::exception

struct DomainDispatch {
  std::string domain;                           // as it was asked for
  double most_bytes = 0.0, most_seconds = 0.0;  // of its shapes: all tensors together; a call
  std::vector<IndividualId> kernels;            // the best of the run first; the table has their indices
  DispatchTable table;
  std::size_t learnt = 0;                            // shapes from which it was
  std::vector<ShapeTimes> drawn;                     // later
  std::vector<ShapeTimes> listed;                    // the run's workloads
  std::map<std::string, std::size_t> left_out = {};  // drawn shapes that do not count, by reason
};
void to_json(nlohmann::json&, const DomainDispatch&);
void from_json(const nlohmann::json&, DomainDispatch&);  // throws nlohmann::json::exception

// The shape as fit_table takes it, with the times of these kernels.
TimedShape timed_shape(const ShapeTimes&, const std::vector<IndividualId>& kernels);

// Of some of its shapes. Regret: the time of the kernel that the table chooses, over that of the best of the
// kernels. Ratio: the time of the fastest contender of each shape, over that of the chosen kernel.
struct DispatchFigures {
  std::size_t shapes = 0, beside = 0;  // `beside`: those that a contender computed
  double regret = 1.0, worst = 1.0;    // geometric mean, and the greatest
  std::string worst_on = {};
  double ratio = 0.0, lower = 0.0, upper = 0.0,
         least = 0.0;  // geometric mean, its 95 % interval by bootstrap
  std::string least_on = {};
};
DispatchFigures figures_of(const DomainDispatch&, const std::vector<ShapeTimes>&);
void to_json(nlohmann::json&, const DispatchFigures&);

// The goals, which are reported and not enforced.
inline constexpr double kGoalRegret = 1.02, kGoalWorstRegret = 1.10;

// "Over 200 shapes drawn ...: ..."; `shapes` says which, "shapes drawn after the table was fitted".
std::string words_of(const DispatchFigures&, const std::string& shapes);
// A line for each rule: "S_kv <= 64 and B * H > 16: #7, then #12 (31 shapes)".
std::vector<std::string> rules_of(const DispatchTable&, const std::vector<IndividualId>& kernels);

}  // namespace cultivar
