// The first question of a dialogue, from what the record tells. Made once, when it is asked; the record keeps
// it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/evaluation.hpp"
#include "evaluators/profile/profile.hpp"
#include "operators/llm/chat.hpp"
#include "operators/operator.hpp"
#include "operators/prompts/describe.hpp"
#include "operators/prompts/prompt_kit.hpp"

namespace cultivar {

// What is known of an individual, beside what the archive holds.
struct Life {
  std::string note;  // what was meant
  std::string stage, reason;
  bool expelled = false;
};

// The record, as prompts ask it. References live as long as the call that gets one.
class Chronicle {
 public:
  virtual ~Chronicle() = default;
  virtual std::string source(IndividualId) const = 0;
  virtual Life life(IndividualId) const = 0;
  virtual std::optional<Evaluation> evaluation(
      IndividualId) const = 0;  // of the confirmation, if it failed there
  virtual std::optional<Profile> profile(IndividualId) const = 0;
  virtual std::vector<IndividualId> children(IndividualId) const = 0;
  // Ratios of contenders to the incumbent, by name and workload: contender's time / the incumbent's.
  virtual std::map<std::string, std::map<std::string, double>> contenders() const = 0;
};

struct Scene {
  const Task& task;
  const std::vector<Workload>& workloads;
  const Facts& facts;
  const Archive& archive;
  const Chronicle& chronicle;
  std::string target;  // "cpu", "cuda"
  std::string device;  // in words
  std::string architecture = {};
  Ceilings seen = {};  // what is 0 is not known; what fits the device's last cache may come from there
  IndividualId incumbent = 0;
};

// The system text is the same for all questions of a run (one of two, by how much room the rest needs), so
// that providers find it in their caches. `left_out`, when given, gets what the budget had no room for.
ChatRequest opening(const Brief&, const Scene&, const PromptKit&,
                    std::vector<std::string>* left_out = nullptr);

// Empty: it may be asked. Otherwise why not, and what to change: what must be sent, the kernels and the
// evidence, may take kMostOverBudget times what the budget leaves to the rest, and no more.
inline constexpr std::int64_t kMostOverBudget = 2;
std::string beyond_budget(const ChatRequest& question, const PromptKit&);

}  // namespace cultivar
