// SPDX-License-Identifier: Apache-2.0
#include "operators/dialogue.hpp"

#include <memory>

#include "operators/prompts/opening.hpp"
#include "operators/registry.hpp"
#include "operators/reply.hpp"

namespace cultivar {

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
