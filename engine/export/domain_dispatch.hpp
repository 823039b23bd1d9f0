// SPDX-License-Identifier: Apache-2.0
// A dispatch table that was learnt over a domain, and what it is worth on shapes that were drawn after it was
// fitted: plain data, with its JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/export/dispatch_table.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Why a shape does not count.
struct LeftOut {
  enum class Why {
    host_fault,    // of the machine: `fault`
    late,          // a timeout, caused by the kernel or by a busy machine
    too_slow,      // a call takes longer than is asked for
    not_computed,  // by any kernel
    earlier        // not known: in the file of an earlier version, which has the words only
  } why = Why::not_computed;
  std::optional<HostFault> fault = {};
  std::string words = {};  // for people; the same for all shapes of a call with this reason

  // Noise hid the times: a later call measures the shape again.
  bool passes() const { return fault == HostFault::busy; }
  static LeftOut after(const Evaluation& rejected);  // which is not, or not surely, due to the kernel
  static LeftOut too_slow(double most_seconds);
  static LeftOut not_computed();
};

// Medians of interleaved runs on one shape, in seconds; every timed output was checked.
struct ShapeTimes {
  std::string shape = {};                       // its name
  Bindings values = {};                         // of dimensions and parameters
  std::map<IndividualId, double> kernels = {};  // of those that serve it
  std::map<std::string, double> contenders = {};
  std::map<IndividualId, std::string> failed = {};  // kernels that failed by their own fault, with the reason
  std::optional<LeftOut> left_out = {};             // nullopt: it counts
  double spent_s = 0.0;                             // wall time of the measurement, with its compilation
};
void to_json(nlohmann::json&, const ShapeTimes&);
void from_json(const nlohmann::json&, ShapeTimes&);  // throws nlohmann::json::exception

struct DomainDispatch {
  std::string domain;                           // as it was asked for
  double most_bytes = 0.0, most_seconds = 0.0;  // of its shapes: all tensors together; a call
  std::vector<IndividualId> kernels;            // the best of the run first; the table has their indices
  DispatchTable table;
  std::size_t learnt = 0;          // shapes from which it was
  std::vector<ShapeTimes> drawn;   // later
  std::vector<ShapeTimes> listed;  // the run's workloads
  std::map<std::string, std::size_t> left_out =
      {};  // drawn shapes that do not count, by the words of the reason
};
void to_json(nlohmann::json&, const DomainDispatch&);
void from_json(const nlohmann::json&, DomainDispatch&);  // throws nlohmann::json::exception

// The shape as fit_table takes it, with the times of these kernels.
TimedShape timed_shape(const ShapeTimes&, const std::vector<IndividualId>& kernels);

// Of some of its shapes. Regret: the time of the kernel that the table chooses, over that of the best of the
// kernels. Ratio: the time of the fastest contender of each shape, over that of the chosen kernel.
struct DispatchFigures {
  std::size_t kernels = 0;             // of the table
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

// The file in a run's folder that holds what `cultivar portfolio --over` measured: a line of JSON for each
// shape, written when it is measured, so that a call that was killed loses nothing else.

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
  // Where the file is then that was there before.
  std::filesystem::path earlier() const {
    return file_.parent_path() / (file_.stem().string() + ".before" + file_.extension().string());
  }

  // Before a choice: shapes for learning. After it: shapes that were drawn later. A new choice makes all of
  // those shapes for learning.
  const std::vector<ShapeTimes>& learning() const { return learning_; }
  const std::vector<ShapeTimes>& proving() const { return proving_; }
  const std::vector<ShapeTimes>& listed() const { return listed_; }
  const std::optional<DispatchChoice>& choice() const { return choice_; }
  const std::map<IndividualId, Evaluation>& confirmations() const { return confirmations_; }
  // Among the drawn ones of this call and of earlier ones, but for those that passes() says are measured
  // again.
  bool knows(const std::string& shape) const { return known_.contains(shape); }

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
