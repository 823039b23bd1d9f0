// SPDX-License-Identifier: Apache-2.0
// A variant with its evaluation and its descent, and what a duel says about its speed. IDs are small integers
// that the record assigns in order of proposal.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "evaluators/verdict/gate.hpp"

namespace cultivar {

using IndividualId = std::int64_t;  // 1, 2, 3, ...; 0 = none

// Where an individual comes from.
enum class Origin : std::uint8_t { seed, submission, operator_ };

inline constexpr std::size_t most_parents = 255;

struct Descent {
  std::vector<IndividualId> parents;  // empty for seeds; at most most_parents
  Origin origin = Origin::operator_;
  std::string op;     // the operator's name; empty for others
  std::string model;  // empty without a language model
  double usd = 0.0;
  std::int64_t tokens = 0;
  int island = 0;
  std::string note;  // the operator's intent, as text
};

// "seed", "submit", or the operator's name, as in the record, in tables and in prompts.
std::string name_of(Origin, const std::string& op);
inline std::string origin_name(const Descent& descent) {
  return name_of(descent.origin, descent.op);
}
void set_origin(Descent&, std::string_view name);  // from such a name

// The facts that the record keeps about an individual in addition to its source and its evaluations.
struct Individual {
  IndividualId id = 0;
  std::string variant_id, source_id;
  std::string
      machine_code;  // hash of the binaries and launch plans; equal for equal kernels; empty before compile
  Configuration configuration;
  Descent descent;
  bool measured = false;
  IndividualId duplicate_of =
      0;  // the individual with the same machine code that was measured instead; 0: none
  double fitness = 0.0;
  std::vector<double> workload_values;  // in the order of the search's workloads
};

// The descent of individuals.
using ParentsOf = std::function<std::vector<IndividualId>(IndividualId)>;

// The chain from the seed to `id` by first parents (the parent whose source it continues).
std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf&);

// Whether one of the two is an ancestor of the other, by any parents.
bool in_one_line(IndividualId, IndividualId, const ParentsOf&);

// What a duel says about its challenger's speed. It replaces the fitness of the challenger's own measurement:
// that one was made at another time than the incumbent's, and the largest of many noisy values is too large.
//
// Natural logarithms of the challenger's speed over the incumbent's. A bound is infinite if there are too few
// runs for it.
struct SpeedRatio {
  double log_ratio = 0.0;
  double lower = -std::numeric_limits<double>::infinity(), upper = std::numeric_limits<double>::infinity();

  friend bool operator==(const SpeedRatio&, const SpeedRatio&) = default;
};

struct DuelResult {
  IndividualId incumbent = 0;
  Verdict verdict = Verdict::undecided;
  SpeedRatio all;                     // geometric mean of the workloads
  std::vector<SpeedRatio> workloads;  // in the order of the search's workloads

  friend bool operator==(const DuelResult&, const DuelResult&) = default;
};

// nullopt: the duel ended before both sides were timed, or undecided after fewer than four pairs and 30
// single runs with bounds so far apart that one measurement says as much.
std::optional<DuelResult> result_of(const Decision&, IndividualId incumbent);

// "+4.4 % (+3.9 to +5.0 %)", "-2.0 % (at most -0.5 %)", "+4.4 % (no bounds yet)".
std::string gain_words(const SpeedRatio&);
// "1.49x", "1.004x", "12.3x", "140x"; "-" if it is not finite. The dashboard's `times` writes the same.
std::string ratio_words(double ratio);

}  // namespace cultivar
