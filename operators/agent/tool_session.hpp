// What the calls of one conversation share. Internal to the tools.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operators/agent/toolbox.hpp"
#include "operators/edits/edits.hpp"

namespace cultivar {

// A kernel that this conversation made: later calls name it instead of sending it again.
struct Draft {
  std::string id;  // "d1"
  Variant variant;
  std::string base;  // what it was made from; empty: sent whole
  std::optional<Evaluation> evaluation;
  std::string origin = {};  // the kernel at the root of its bases that is no draft; empty: none
};

// Thread-safe.
class Drafts {
 public:
  explicit Drafts(std::size_t most) : most_(most) {}
  Draft put(Variant, const std::string& base);  // the same one again, if there is one of this identity
  std::optional<Draft> find(const std::string& id) const;
  void judged(const std::string& id, const Evaluation&);
  std::vector<Draft> all() const;
  void restore(Draft);  // under its own id, "dN"; the next one made is d(N+1) or later

 private:
  mutable std::mutex mutex_;
  std::size_t most_, made_ = 0;
  std::deque<Draft> drafts_;

  void keep(Draft);
};

// Who may measure: one at a time, first come, first served. Its time is what the session's budget counts: the
// wall time of the turn, unless the bench knows better (Bench::device_seconds).
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
        : turns_(turns),
          begun_(std::chrono::steady_clock::now()),
          metered_(turns->bench_.device_seconds().value_or(0.0)) {}
    DeviceTurns* turns_;
    std::chrono::steady_clock::time_point begun_;
    double metered_;  // by the bench, when it began
  };
  // Waits for it. Refused when the watch is over before, or the budget is used up. The watch's deadline comes
  // nearer if less than that is left of the budget.
  tl::expected<Turn, Refusal> take(Watch&);
  double used() const;
  double limit() const { return limit_s_; }
  void restore(double used_s);  // in an earlier session

 private:
  const Bench& bench_;
  mutable std::mutex mutex_;
  std::condition_variable_any free_;
  const double limit_s_;
  double used_s_ = 0.0;
  std::deque<std::uint64_t> queue_;  // tickets; the front is being served
  std::uint64_t tickets_ = 0;
};

struct ToolSession {
  Bench& bench;
  ToolLimits limits;
  Drafts drafts;
  DeviceTurns turns;
};

// Words for the model: what the tool found out, or why it could not.
using Answer = tl::expected<std::string, Refusal>;
inline tl::unexpected<Refusal> refused(std::string words) {
  return tl::make_unexpected(Refusal{std::move(words)});
}

// Arguments have been checked against the schema.
using ToolFunction = Answer (*)(ToolSession&, const nlohmann::json& arguments, Watch&);
Answer list_lineage(ToolSession&, const nlohmann::json&, Watch&);
Answer read_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer diff_variants(ToolSession&, const nlohmann::json&, Watch&);
Answer read_knowledge(ToolSession&, const nlohmann::json&, Watch&);
Answer compile_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer check_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer benchmark_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer profile_variant(ToolSession&, const nlohmann::json&, Watch&);
Answer submit_variant_tool(ToolSession&, const nlohmann::json&, Watch&);

// A draft, or what the bench knows by that id.
tl::expected<Kernel, Refusal> find_kernel(ToolSession&, const std::string& id);

// The variant that a call is about: an id, an id with an edit, or a whole source; tunables set besides. What
// is new becomes a draft.
struct Subject {
  std::string label;  // its id
  Variant variant;
  bool draft = false;
};
tl::expected<Subject, Refusal> subject_of(ToolSession&, const nlohmann::json& arguments);
tl::expected<Variant, Refusal> variant_of(const Bench&, const Kernel&);

}  // namespace cultivar
