// SPDX-License-Identifier: Apache-2.0
// The file in a run's folder that holds what `cultivar portfolio --over` measured: a line of JSON for each
// shape, written when it is measured, so that a call that was killed loses nothing else.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/export/domain_dispatch.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// What must be equal for an earlier measurement to be of use.
struct DomainLogKey {
  std::string domain, device;
  double most_bytes = 0.0, most_seconds = 0.0;
  std::vector<IndividualId> members;  // that are measured, the best of the run first
  friend bool operator==(const DomainLogKey&, const DomainLogKey&) = default;
};

// The table that was fitted, and the seed of the shapes that were drawn afterwards.
struct DispatchChoice {
  std::vector<IndividualId> kernels;
  DispatchTable table;
  std::size_t learnt = 0;
  std::uint64_t seed = 0;
};

// Not thread-safe; one process writes at a time.
class DomainLog {
 public:
  // Goes on with the file if its key is equal; otherwise it begins a new one, and `why` says why if there was
  // one. An incomplete last line, of a call that was killed, is left out.
  static Expected<DomainLog> open(std::filesystem::path, const DomainLogKey&, std::uint64_t new_seed);

  std::uint64_t seed() const { return seed_; }  // of the shapes that the table is learnt from
  const std::string& why_new() const { return why_new_; }

  // Before a choice: shapes for learning. After it: shapes that were drawn later. A new choice makes all of
  // those shapes for learning.
  const std::vector<ShapeTimes>& learning() const { return learning_; }
  const std::vector<ShapeTimes>& proving() const { return proving_; }
  const std::vector<ShapeTimes>& listed() const { return listed_; }
  const std::optional<DispatchChoice>& choice() const { return choice_; }
  const std::map<IndividualId, Evaluation>& confirmations() const { return confirmations_; }
  bool knows(const std::string& shape) const { return known_.contains(shape); }  // among the drawn ones

  // Each is written before it counts.
  Expected<void> add(const ShapeTimes&);
  Expected<void> add_listed(const ShapeTimes&);
  Expected<void> add(const DispatchChoice&);
  Expected<void> add(IndividualId, const Evaluation& confirmation);
  void learn_more();  // what was drawn after the choice is for learning, and there is no choice

 private:
  Expected<void> append(const nlohmann::json&);
  void take(const nlohmann::json& line);

  std::filesystem::path file_;
  std::uint64_t seed_ = 0;
  std::string why_new_;
  std::vector<ShapeTimes> learning_, proving_, listed_;
  std::optional<DispatchChoice> choice_;
  std::map<IndividualId, Evaluation> confirmations_;
  std::set<std::string> known_;
};

}  // namespace cultivar
