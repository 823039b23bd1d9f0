// SPDX-License-Identifier: Apache-2.0
// Every operator by its name in a configuration or in a brief.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operators/asking_operator.hpp"
#include "operators/operator.hpp"
#include "operators/prompts/prompt_context.hpp"

namespace cultivar {

struct ToolSpec;

struct OperatorOptions {
  std::uint64_t run_seed = 1;
  int repair_rounds = 3;        // for critique_repair: repairs in a row
  bool rankings = true;         // for tune: see TunerOptions
  bool avoids_refusals = true;  // for tune and crossover_knobs: see TunerOptions
};

// The facts about an operator that other parts read.
struct OperatorRow {
  std::string_view name;
  bool writes = false;      // makes new sources; other operators keep the source of a parent
  std::string_view prompt;  // template of its first question; empty if it asks no language model
  std::vector<ToolSpec> (*tools)(Target);  // that its model can call; nullptr if none
  std::string_view colour;                 // in charts
  std::unique_ptr<Operator> (*make)(const OperatorOptions&);

  bool informs = false;  // its directions are insights for all later questions, and no operator follows them
  bool follows = false;  // directions of `plan` are what it is asked to try

  bool asks() const { return !prompt.empty(); }
  bool uses_tools() const { return tools != nullptr; }
};

std::span<const OperatorRow> operator_rows();
std::vector<std::string> operator_names();
const OperatorRow* find_operator(std::string_view name);                                 // nullptr if unknown
const OperatorRow& operator_named(std::string_view name);                                // throws InputError
std::unique_ptr<Operator> make_operator(std::string_view name, const OperatorOptions&);  // throws InputError

// The first question of a brief, and the move after each answer, by the operator that the registry has under
// the brief's name. It need not be in the current configuration: a record may hold briefs of others.

// Created once, when it is asked, and then recorded. `left_out`, if given, receives what did not fit the
// token limit.
ChatRequest first_question(const Brief&, const PromptContext&, const PromptKit&,
                           std::vector<std::string>* left_out = nullptr);

// The move after the last of `turns`, which must not be empty.
Move next_move(const Brief&, const EditedParent&, const Task&, const PromptKit&,
               const std::vector<Turn>& turns);

}  // namespace cultivar
