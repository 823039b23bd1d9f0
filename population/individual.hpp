// SPDX-License-Identifier: Apache-2.0
// A variant with its evaluation and its descent. IDs are small integers that the record assigns in order of
// proposal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"

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

}  // namespace cultivar
