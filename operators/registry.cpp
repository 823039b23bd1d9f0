// SPDX-License-Identifier: Apache-2.0
#include "operators/registry.hpp"

#include <algorithm>
#include <array>

#include "evaluators/system/error.hpp"
#include "operators/agent.hpp"
#include "operators/agent/agent_dialogue.hpp"
#include "operators/critique_repair.hpp"
#include "operators/crossover.hpp"
#include "operators/crossover_knobs.hpp"
#include "operators/mutate.hpp"
#include "operators/plan.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/reflect.hpp"
#include "operators/reply.hpp"
#include "operators/tune.hpp"

namespace cultivar {

namespace {

template <class Made>
std::unique_ptr<Operator> plain(const OperatorOptions&) {
  return std::make_unique<Made>();
}

std::unique_ptr<Operator> tune(const OperatorOptions& options) {
  return std::make_unique<TuneOperator>(options.run_seed, options.rankings, options.avoids_refusals);
}

std::unique_ptr<Operator> crossover_knobs(const OperatorOptions& options) {
  return std::make_unique<CrossoverKnobs>(options.avoids_refusals);
}

std::unique_ptr<Operator> critique_repair(const OperatorOptions& options) {
  return std::make_unique<CritiqueRepair>(options.repair_rounds);
}

// Add a new operator here. Colors that color-blind readers can distinguish (Okabe and Ito), mid-toned for
// light and dark pages.
// clang-format off
constexpr std::array kOperators{
    // name, writes, prompt, tools, colour, constructor, informs, follows
    OperatorRow{"tune",            false, "",          nullptr,          "#56b4e9", tune},
    OperatorRow{"crossover_knobs", false, "",          nullptr,          "#009e73", crossover_knobs},
    OperatorRow{"mutate",          true,  "mutate",    nullptr,          "#e69f00", plain<Mutate>, false, true},
    OperatorRow{"crossover",       true,  "crossover", nullptr,          "#cc79a7", plain<Crossover>},
    OperatorRow{"critique_repair", true,  "critique",  nullptr,          "#8c7ae6", critique_repair},
    OperatorRow{"agent",           true,  "agent",     agent_tool_specs, "#0072b2", plain<Agent>, false, true},
    OperatorRow{"plan",            false, "plan",      nullptr,          "#f0e442", plain<PlanOperator>},
    OperatorRow{"reflect",         false, "reflect",   nullptr,          "#999999", plain<Reflect>, true},
};
// clang-format on

}  // namespace

std::span<const OperatorRow> operator_rows() {
  return kOperators;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const OperatorRow& row : kOperators) names.emplace_back(row.name);
  return names;
}

const OperatorRow* find_operator(std::string_view name) {
  const auto* const found = std::ranges::find(kOperators, name, &OperatorRow::name);
  return found == kOperators.end() ? nullptr : found;
}

const OperatorRow& operator_named(std::string_view name) {
  if (const OperatorRow* const row = find_operator(name)) return *row;
  throw InputError("there is no operator '" + std::string(name) + "'");
}

std::unique_ptr<Operator> make_operator(std::string_view name, const OperatorOptions& options) {
  return operator_named(name).make(options);
}

std::string_view name_of(NoResult why) {
  switch (why) {
    case NoResult::declined:
      return "declined";
    case NoResult::withdrawn:
      return "withdrawn";
    case NoResult::fruitless:
      break;
  }
  return "fruitless";
}

namespace {

// A new instance is enough: questions and moves depend on the brief and the answers only.
std::unique_ptr<Operator> operator_of(const Brief& brief) {
  auto made = make_operator(brief.op, {});
  if (made->asking() == nullptr) throw InputError("the operator '" + brief.op + "' asks no language model");
  return made;
}

bool keeps_sources(const std::string& op) {
  const OperatorRow* const row = find_operator(op);
  return row != nullptr && !row->writes;
}

}  // namespace

ChatRequest first_question(const Brief& brief, const PromptContext& context, const PromptKit& kit,
                           std::vector<std::string>* left_out) {
  const OperatorRow& row = operator_named(brief.op);
  PromptWriter writer(context, kit, brief.parents.front(), keeps_sources);
  operator_of(brief)->asking()->write(brief, writer);
  ChatRequest request = opening(kit.named(std::string(row.prompt)), writer.pieces(), context, kit, left_out);
  if (row.uses_tools()) request.tools = row.tools(context.target);
  return request;
}

Move next_move(const Brief& brief, const EditedParent& parent, const Task& task, const PromptKit& kit,
               const std::vector<Turn>& turns) {
  if (turns.empty()) return GivenUp{"no answer arrived"};
  Move next = operator_of(brief)->asking()->next({brief, parent, task, kit, turns});
  if (auto end = nothing_came(turns, next)) return *std::move(end);
  return next;
}

}  // namespace cultivar
