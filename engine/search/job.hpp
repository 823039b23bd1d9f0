// What a search sends out: kernels to compilers and devices, questions to models, calls to an agent's tools.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "evaluators/judge/requests.hpp"
#include "operators/dialogue.hpp"
#include "operators/llm/chat_service.hpp"
#include "population/individual.hpp"

namespace cultivar {

class AgentToolCalls;

// What is compiled for a job: the individual itself, and then the others that it is measured beside.
struct Build {
  std::vector<VariantPtr> variants;
  std::vector<Workload> workloads;
  Breadth breadth = Breadth::searching;
  std::vector<tl::expected<Compiled, Evaluation>> compiled = {};  // by variant, once it came back
};

// Compiled first, and then measured: the request is made from what was compiled.
template <class AskedFor, class Found>
struct Measurement {
  Build build = {};
  AskedFor request = {};
  std::optional<Found> result = {};
};

struct Evaluate : Measurement<EvaluateRequest, Evaluation> {
  static constexpr const char* doing = "evaluating";
  static constexpr bool urgent = false, droppable = true;
  std::string kernel = {};  // hash of machine code and plans, once compiled
};
// A challenger against the incumbent. What was measured must still be compared when the time is over.
struct Duel : Measurement<GateRequest, GateReport> {
  static constexpr const char* doing = "duel";
  static constexpr bool urgent = true, droppable = false;
};
struct Confirm : Measurement<EvaluateRequest, Evaluation> {
  static constexpr const char* doing = "confirm";
  static constexpr bool urgent = true, droppable = false;
};
// The incumbent once more.
struct Pace : Measurement<EvaluateRequest, Evaluation> {
  static constexpr const char* doing = "evaluating";
  static constexpr bool urgent = true, droppable = true;
};
struct TakeProfile : Measurement<ProfileRequest, ProfilePartial> {
  static constexpr const char* doing = "profile";
  static constexpr bool urgent = true, droppable = true;
};
// A turn of a question's dialogue.
struct Ask {
  std::int64_t question = 0;
  ChatOrder order;
  std::optional<ServedResult> answer = {};
};
// A tool of an agent, in such a dialogue. It may wait for probes, which are jobs too.
struct Call {
  std::int64_t question = 0;
  std::shared_ptr<AgentToolCalls> tool_calls;
  ToolDue due;
  std::stop_token stop;
  std::optional<ToolOutcome> outcome = {};  // none: interrupted
};

struct Job {
  using Work = std::variant<Evaluate, Duel, Confirm, Pace, TakeProfile, Ask, Call>;

  Job(Work what, IndividualId whom) : work(std::move(what)), id(whom) {}

  Work work;
  IndividualId id;  // 0: a question, a call, or a probe

  // Compiled or measured for a call, whose thread waits for it: begun by a worker or given up by the caller,
  // whoever claims it first.
  bool probe = false;
  std::atomic<bool> claimed{false};

  // What came back.
  double seconds = 0.0;                      // on the device
  std::optional<Error> trouble;              // no worker could be had, whatever the candidate is
  std::vector<std::string> device_troubles;  // of devices that it was tried on before, in words
  bool abandoned = false;                    // not worked on, because the search is about to stop
};
using JobPtr = std::shared_ptr<Job>;

// nullptr: nothing is compiled for it.
inline Build* build_of(Job& job) {
  return std::visit(
      [](auto& work) -> Build* {
        if constexpr (requires { work.build; })
          return &work.build;
        else
          return nullptr;
      },
      job.work);
}

// One function of several lambdas, for std::visit.
template <class... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};

}  // namespace cultivar
