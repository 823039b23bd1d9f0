// SPDX-License-Identifier: Apache-2.0
// The state that the calls of one conversation share. Internal to the tools.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "operators/agent/device_turns.hpp"
#include "operators/agent/drafts.hpp"
#include "operators/agent/toolbox.hpp"

namespace cultivar {

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
