// The jobs of a search: kernels for compilers and devices, questions for models, calls of an agent's tools.
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

// What is compiled for a job: the individual, then the variants that are measured beside it.
struct Build {
  std::vector<VariantPtr> variants;
  std::vector<Workload> workloads;
  Breadth breadth = Breadth::searching;
  std::vector<tl::expected<Compiled, Evaluation>> compiled = {};  // by variant, after it has returned
};

// Compiled, then measured with a request made from the compiled variants.
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
// A challenger against the incumbent. It is still done after the time budget is exhausted.
struct Duel : Measurement<GateRequest, GateReport> {
  static constexpr const char* doing = "duel";
  static constexpr bool urgent = true, droppable = false;
};
struct Confirm : Measurement<EvaluateRequest, Evaluation> {
  static constexpr const char* doing = "confirm";
  static constexpr bool urgent = true, droppable = false;
};
// Measures the incumbent again.
struct Pace : Measurement<EvaluateRequest, Evaluation> {
  static constexpr const char* doing = "evaluating";
  static constexpr bool urgent = true, droppable = true;
};
struct TakeProfile : Measurement<ProfileRequest, ProfilePartial> {
  static constexpr const char* doing = "profile";
  static constexpr bool urgent = true, droppable = true;
};
// One turn of a question's dialogue.
struct Ask {
  std::int64_t question = 0;
  ChatOrder order;
  std::optional<ServedResult> answer = {};
};
// A tool call in an agent's dialogue. It may wait for probes, which are jobs as well.
struct Call {
  std::int64_t question = 0;
  std::shared_ptr<AgentToolCalls> desk;
  ToolDue due;
  std::stop_token stop;
  std::optional<ToolOutcome> outcome = {};  // nullopt: interrupted
};

struct Job {
  using Work = std::variant<Evaluate, Duel, Confirm, Pace, TakeProfile, Ask, Call>;

  Job(Work what, IndividualId whom) : work(std::move(what)), id(whom) {}

  Work work;
  IndividualId id;  // 0: a question, a call, or a probe

  // Compiled or measured for a tool call whose thread waits for it. Either a worker begins it or the caller
  // gives it up; `claimed` decides which.
  bool probe = false;
  std::atomic<bool> claimed{false};

  // The result.
  double seconds = 0.0;                      // on the device
  std::optional<Error> trouble;              // no worker was available; not the candidate's fault
  std::vector<std::string> device_troubles;  // messages of devices that it was tried on before
  bool abandoned = false;                    // not begun, because the search is stopping
};
using JobPtr = std::shared_ptr<Job>;

// nullptr if nothing is compiled for it.
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
