// SPDX-License-Identifier: Apache-2.0
// The jobs of a search: kernels for compilers and devices, requests to models, calls of an agent's tools.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "engine/search/search_callbacks.hpp"
#include "evaluators/judge/requests.hpp"
#include "operators/llm/chat_service.hpp"
#include "operators/registry.hpp"
#include "population/individual.hpp"

namespace cultivar {

class AgentToolCalls;

// Which of the waiting jobs a worker takes first. Kernels that a language model or a user wrote go before
// those that the other operators propose by the thousand: what they give decides what is asked next.
enum class Priority : std::uint8_t { usual, awaited, urgent };

// What is compiled for a job: first the individual itself, then the variants that it is measured with.
struct Build {
  std::vector<VariantPtr> variants;
  std::vector<Workload> workloads;
  Breadth breadth = Breadth::searching;
  std::vector<VariantPtr> contenders = {};  // compiled only for `timed`
  std::vector<Workload> timed = {};
  // By variant, and then by contender, after compilation.
  std::vector<tl::expected<Compiled, Evaluation>> compiled = {};
};

// Work that is compiled and then measured. The request is filled in after compilation.
template <class AskedFor, class Found, InFlight::Doing what>
struct Measurement {
  static constexpr InFlight::Doing doing = what;
  static constexpr Priority priority = Priority::urgent;
  static constexpr bool droppable = true;
  Build build = {};
  AskedFor request = {};
  std::optional<Found> result = {};
};

struct Evaluate : Measurement<EvaluateRequest, Evaluation, InFlight::Doing::evaluating> {
  Priority priority = Priority::usual;
  std::string kernel = {};     // hash of machine code and plans, set after compilation
  IndividualId incumbent = 0;  // timed beside it; 0: none
};
// A challenger against the incumbent. Not droppable: measured kernels are still compared when the wall budget
// is exhausted.
struct Duel : Measurement<GateRequest, GateReport, InFlight::Doing::duel> {
  static constexpr bool droppable = false;
};
struct Confirm : Measurement<EvaluateRequest, Evaluation, InFlight::Doing::confirmation> {
  static constexpr bool droppable = false;
};
// Another measurement of the incumbent.
struct Pace : Measurement<EvaluateRequest, Evaluation, InFlight::Doing::evaluating> {};
// A measurement of a kernel that is known to work, which shows whether a fault is the host's. Not recorded.
struct Canary : Measurement<EvaluateRequest, Evaluation, InFlight::Doing::evaluating> {};
struct TakeProfile : Measurement<ProfileRequest, ProfilePartial, InFlight::Doing::profile> {};
// One call to a model in a question's dialogue.
struct Ask {
  std::int64_t question = 0;
  ChatOrder order;
  std::optional<ServedResult> answer = {};
};
// One tool call in an agent's dialogue. It may wait for probes, which are jobs too.
struct Call {
  std::int64_t question = 0;
  std::shared_ptr<AgentToolCalls> tool_calls;
  ToolDue due;
  std::stop_token stop;
  std::optional<ToolOutcome> outcome = {};  // nullopt: interrupted
};

struct Job {
  using Work = std::variant<Evaluate, Duel, Confirm, Pace, Canary, TakeProfile, Ask, Call>;

  Job(Work what, IndividualId whom) : work(std::move(what)), id(whom) {}

  Work work;
  IndividualId id;  // 0 for Ask, Call and probes

  // A probe is compiled or measured for a tool call, whose thread waits for it. Either a worker sets
  // `claimed` and starts the probe, or the caller sets it and gives the probe up.
  bool probe = false;
  std::atomic<bool> claimed{false};

  bool announced = false;  // as a measurement, which the quiet lease expects and no worker has begun

  // The result.
  double seconds = 0.0;                      // of device time
  std::optional<Error> trouble;              // no worker was available; independent of the candidate
  std::vector<std::string> device_troubles;  // messages of devices on which earlier attempts failed
  bool abandoned = false;  // not started, because the search is stopping or the caller gave up
};
using JobPtr = std::shared_ptr<Job>;

// Returns nullptr if the job compiles nothing.
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

// Combines several lambdas into one overloaded function, for std::visit.
template <class... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};
template <class... Each>
Overloaded(Each...) -> Overloaded<Each...>;

}  // namespace cultivar
