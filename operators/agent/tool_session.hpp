// SPDX-License-Identifier: Apache-2.0
// The state that the calls of one conversation share. Internal to the tools.
#pragma once

#include <nlohmann/json.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/clock.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "operators/agent/bench.hpp"
#include "operators/agent/toolbox.hpp"
#include "operators/edits/edits.hpp"

namespace cultivar {

// The turns of a conversation's calls on the device, and its device time.
// Grants the device to one call at a time, in order of arrival. The session's budget counts the wall time of
// each turn, unless the bench meters device time (Bench::device_seconds).
class DeviceTurns {
 public:
  DeviceTurns(const Bench& bench, double limit_s) : bench_(bench), limit_s_(limit_s) {}

  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : turns_(std::exchange(other.turns_, nullptr)), begun_(other.begun_), metered_(other.metered_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    double seconds() const;

   private:
    friend class DeviceTurns;
    explicit Turn(DeviceTurns* turns)
        : turns_(turns), begun_(Clock::now()), metered_(turns->bench_.device_seconds().value_or(0.0)) {}
    DeviceTurns* turns_;
    Clock::time_point begun_;
    double metered_;  // the bench's meter at the start
  };
  // Waits for the device. Refused if the watch is over first, or if the budget is exhausted. The watch's
  // deadline is shortened to the remaining budget.
  tl::expected<Turn, EditRefusal> take(Watch&);
  double used() const;
  double limit() const { return limit_s_; }
  void restore(double used_s);  // used in an earlier session

 private:
  const Bench& bench_;
  mutable std::mutex mutex_;
  std::condition_variable_any free_;
  const double limit_s_;
  double used_s_ = 0.0;
  std::deque<std::uint64_t> queue_;  // tickets; the front one has the device
  std::uint64_t tickets_ = 0;
};

// The kernels that a conversation with tools creates.

// A kernel that this conversation created: later calls refer to it by its id instead of sending it again.
struct Draft {
  std::string id;  // "d1"
  Variant variant;
  std::string base;  // the kernel that it edits; empty if it was sent as a complete source
  std::optional<Evaluation> evaluation;
  std::string origin = {};  // the first kernel in its chain of bases that is not a draft; empty if none
};

// Thread-safe.
class Drafts {
 public:
  explicit Drafts(std::size_t most) : most_(most) {}
  // Returns the existing draft if there is one with this identity. `origin`: of a base that is no draft of
  // this conversation; if empty, the base itself.
  Draft put(Variant, const std::string& base, const std::string& origin = {});
  std::optional<Draft> find(const std::string& id) const;
  // A measurement of fewer workloads, or none, never replaces one of more.
  void judged(const std::string& id, const Evaluation&);
  std::vector<Draft> all() const;
  void restore(Draft);  // keeps its id, "dN"; later drafts get d(N+1) or higher

 private:
  mutable std::mutex mutex_;
  std::size_t most_, made_ = 0;
  std::deque<Draft> drafts_;

  void keep(Draft);
};

struct ToolSession {
  Bench& bench;
  ToolLimits limits;
  Drafts drafts;
  DeviceTurns turns;
  std::vector<std::string> notes = {};  // of a bench without a file for them
  std::mutex notes_mutex = {};
  // Of the drafts that this conversation made: what the bench was told, and whose likeness the agent was
  // told.
  std::mutex shared_mutex = {};
  std::set<std::string> shared = {}, compared = {};
  bool share_failed = false;
};

// A message for the model: the tool's result, or why there is none.
using Answer = tl::expected<std::string, EditRefusal>;
inline tl::unexpected<EditRefusal> refused(std::string words) {
  return tl::make_unexpected(EditRefusal{std::move(words)});
}

// The arguments have been validated against the schema.
using ToolFunction = Answer (*)(ToolSession&, const nlohmann::json& arguments, Watch&);
Answer list_lineage(ToolSession&, const nlohmann::json&, Watch&);
Answer read_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer diff_variants(ToolSession&, const nlohmann::json&, Watch&);
Answer read_knowledge(ToolSession&, const nlohmann::json&, Watch&);
Answer compile_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer check_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer benchmark_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer tune_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer profile_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer read_assembly(ToolSession&, const nlohmann::json&, Watch&);
Answer run_notes(ToolSession&, const nlohmann::json&, Watch&);
Answer wait_for_verdict(ToolSession&, const nlohmann::json&, Watch&);
Answer submit_variant_tool(ToolSession&, const nlohmann::json&, Watch&);

// A kernel's id, which may be given as a number; empty if there is none.
std::string id_in(const nlohmann::json& arguments, const char* name);
// The values of an object {"TILE": 4, "DEAL": "turns"}.
Configuration tunables_of(const nlohmann::json& values);

// A draft, or the bench's kernel with that id.
tl::expected<Kernel, EditRefusal> find_kernel(ToolSession&, const std::string& id);

// The variant that a call refers to: an id, an id with an edit, or a complete source, optionally with
// tunables. A new variant becomes a draft.
struct Subject {
  std::string label;  // its id
  Variant variant;
  bool draft = false;
  std::string base = {};  // of another conversation's draft: the kernel of the run that it goes back to
};
tl::expected<Subject, EditRefusal> subject_of(ToolSession&, const nlohmann::json& arguments);
tl::expected<Variant, EditRefusal> variant_of(const Bench&, const Kernel&);

// What an earlier kernel gave whose change is nearly that of this draft, the first time that it is asked for
// one; otherwise empty.
std::string likeness(ToolSession&, const Draft&);

}  // namespace cultivar
