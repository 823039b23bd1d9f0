// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/toolbox.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/agent/tool_session.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

// A value shortened for use in a sentence.
std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = json_text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...\"";
  return text;
}

bool is_of(const json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  return value.is_object();
}

std::optional<std::string> wrong_value(const json& schema, const json& value, const std::string& name) {
  const auto type = schema.find("type");
  if (type != schema.end()) {
    const std::vector<std::string> types =
        type->is_array() ? type->get<std::vector<std::string>>() : std::vector{type->get<std::string>()};
    bool fits = false;
    for (const std::string& each : types) fits = fits || is_of(value, each);
    if (!fits)
      return fmt::format("`{}` must be of type {}, but is {}", name, fmt::join(types, " or "), shown(value));
  }
  if (const auto allowed = schema.find("enum"); allowed != schema.end()) {
    bool known = false;
    std::vector<std::string> names;
    for (const json& each : *allowed) {
      known = known || each == value;
      names.push_back(each.get<std::string>());
    }
    if (!known)
      return fmt::format("`{}` is {}, but must be one of: {}", name, shown(value), fmt::join(names, ", "));
  }
  if (value.is_number()) {
    if (schema.contains("minimum") && value < schema["minimum"])
      return fmt::format("`{}` is {}, but must be at least {}", name, shown(value), schema["minimum"].dump());
    if (schema.contains("maximum") && value > schema["maximum"])
      return fmt::format("`{}` is {}, but must be at most {}", name, shown(value), schema["maximum"].dump());
  }
  if (value.is_string() && schema.contains("maxLength") &&
      value.get_ref<const std::string&>().size() > schema["maxLength"].get<std::size_t>())
    return fmt::format("`{}` has {} bytes, but at most {} are allowed", name,
                       value.get_ref<const std::string&>().size(), schema["maxLength"].dump());
  if (value.is_array()) {
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<std::size_t>())
      return fmt::format("`{}` has {} items, but at most {} are allowed", name, value.size(),
                         schema["maxItems"].dump());
    if (schema.contains("items"))
      for (const json& item : value)
        if (auto wrong = wrong_value(schema["items"], item, name + "[]")) return wrong;
  }
  if (value.is_object() && schema.contains("additionalProperties"))
    for (const auto& [key, item] : value.items())
      if (auto wrong = wrong_value(schema["additionalProperties"], item, name + "." + key.substr(0, 60)))
        return wrong;
  return std::nullopt;
}

// What is wrong with a call's arguments, by the tool's schema, as a model can act on it; nullopt if they are
// valid. Supports what the tools' schemas use: objects with `properties`, `required` and
// no other names; `type` (a name), `enum`, `minimum`, `maximum`, `maxLength`, `items`, `maxItems`, and
// `additionalProperties` as a list of types (for the values of an object with arbitrary names).
std::optional<std::string> wrong_arguments(const json& schema, const json& arguments) {
  if (!arguments.is_object())
    return fmt::format("the arguments must be an object, but are {}", shown(arguments));
  const json& properties = schema.at("properties");
  std::vector<std::string> known;
  for (const auto& [name, _] : properties.items()) known.push_back(name);
  for (const auto& [name, value] : arguments.items()) {
    const auto property = properties.find(name);
    if (property == properties.end())
      return fmt::format("there is no argument `{}`{}", name.substr(0, 60),
                         did_you_mean(name.substr(0, 60), known));
    if (auto wrong = wrong_value(*property, value, name)) return wrong;
  }
  if (schema.contains("required"))
    for (const json& name : schema["required"])
      if (!arguments.contains(name.get<std::string>()))
        return fmt::format("the argument `{}` is missing", name.get<std::string>());
  return std::nullopt;
}

constexpr int kSourceLimit = 1 << 20;

json text(const char* about, int most = 200) {
  return {{"type", "string"}, {"description", about}, {"maxLength", most}};
}

json id(const char* about) {
  return {{"type", {"string", "integer"}}, {"description", about}, {"maxLength", 200}};
}

json object(json properties, std::vector<std::string> required = {}) {
  json schema = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

json values(const char* about) {
  return {{"type", "object"},
          {"description", about},
          {"additionalProperties", {{"type", {"integer", "string"}}}}};
}

// The arguments with which a call specifies a kernel.
json with_kernel(json properties, std::vector<std::string> required = {}) {
  properties["variant"] =
      id("id of a kernel: a number of the lineage, `best`, `seed`, a draft (`d1`; of another conversation: "
         "`q5.d1`, `m2.d1`) or a seed's name");
  properties["edit"] = text(
      "change `variant` first: one or more blocks of\n<<<<<<< SEARCH\ncomplete lines of its source, copied "
      "exactly, enough to occur only once\n"
      "=======\nreplacement lines\n>>>>>>> REPLACE",
      kSourceLimit);
  properties["source"] =
      text("a complete source with its manifest, and its headers if any, instead of `variant` and `edit`",
           kSourceLimit);
  properties["tunables"] = values("values of tunables; others keep the variant's value or their default");
  return object(std::move(properties), std::move(required));
}

json workloads() {
  return {{"type", "array"},
          {"items", {{"type", "string"}}},
          {"maxItems", 64},
          {"description", "names of the workloads to use; if omitted, all that the kernel claims"}};
}

struct Entry {
  const char *name, *title, *about;
  json parameters;
  ToolFunction run;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"list_lineage", "List kernels",
       "The state of the search and a list of kernels, one per line: id, fitness or reason for rejection, "
       "parents, operator, tunables, idea. By default those that became the best, in order; drafts of this "
       "session follow.",
       object(
           {{"of", id("only the ancestors of this kernel, and its children")},
            {"state", {{"type", "string"}, {"enum", {"measured", "rejected", "in flight", "not evaluated"}}}},
            {"order", {{"type", "string"}, {"enum", {"promotions", "fittest", "newest"}}}},
            {"limit", {{"type", "integer"}, {"minimum", 1}, {"maximum", 200}}},
            {"offset", {{"type", "integer"}, {"minimum", 0}, {"maximum", 100'000'000}}}}),
       list_lineage},
      {"read_variant", "Read a kernel",
       "One kernel: lineage, measurements by workload or the reason for rejection with diagnostics, profile, "
       "and its exact source. Long sources are returned in parts.",
       object({{"variant",
                id("id of a kernel: a number, `best`, `seed`, a draft (`d1`, `q5.d1`) or a seed's name")},
               {"from_line", {{"type", "integer"}, {"minimum", 1}, {"maximum", 1'000'000}}},
               {"lines", {{"type", "integer"}, {"minimum", 1}, {"maximum", 100'000}}}},
              {"variant"}),
       read_variant},
      {"diff", "Compare two sources",
       "The differences between two kernels: fitness, tunables, and a unified diff.",
       object({{"a", id("id of the older")}, {"b", id("id of the newer")}}, {"a", "b"}), diff_variants},
      {"read_knowledge", "Read knowledge",
       "Without arguments: the list of pages and notes. With `name`: one page (`task`: what must be computed "
       "and how it is checked; `variant_format`: the format of a kernel and its manifest; `device`: the "
       "hardware's facts) or one note on making kernels fast. With `bottleneck` or `compiler_output`: the "
       "notes that apply.",
       object({{"name", text("name of a page or note")},
               {"bottleneck", text("a bottleneck as named in a profile, such as stall_long_scoreboard")},
               {"compiler_output", text("output of a compiler", 20'000)}}),
       read_knowledge},
      {"compile", "Compile a kernel",
       "Compiles a kernel for the workloads and screens the machine code. Returns the resources of each "
       "binary and warnings, or the stage of rejection with the compiler's output. New sources become "
       "drafts, whose ids later calls take.",
       with_kernel({{"workloads", workloads()}}), compile_variant},
      {"check", "Check a kernel",
       "Compiles a kernel, runs it in the sandbox and compares every output with the fp64 oracle on new "
       "secret inputs: smoke, sweep, stress, determinism, edge. Reports the stage that failed and the first "
       "wrong element.",
       with_kernel({{"workloads", workloads()},
                    {"up_to",
                     {{"type", "string"},
                      {"enum", {"smoke", "sweep", "stress", "determinism", "edge"}},
                      {"description", "the last stage to run; if omitted, all"}}}}),
       check_variant},
      {"benchmark", "Benchmark a kernel",
       "Checks a kernel and times it on every workload, interleaved with the best kernel so far (or "
       "`against`): median, quartiles and ratio with its interval by workload. Ends early when the "
       "difference is plain; `thorough` takes four times the samples, for small differences and busy "
       "machines. With `settings`: one row for each of several settings of the kernel's tunables, which "
       "become drafts.",
       with_kernel({{"workloads", workloads()},
                    {"against", id("id of the kernel to compare with, or `none`; if omitted, the best")},
                    {"settings",
                     {{"type", "array"},
                      {"items", values("values of tunables")},
                      {"maxItems", 32},
                      {"description", "settings to time, such as [{\"TILE\": 2}, {\"TILE\": 4}]"}}},
                    {"thorough",
                     {{"type", "boolean"}, {"description", "four times the samples, without early end"}}}}),
       benchmark_variant},
      {"tune", "Tune a kernel's tunables",
       "Times settings of a kernel's tunables, interleaved with the kernel as it is (or `against`), and "
       "lists them, fastest first: every combination of `values`, or as many as `evaluations` that the "
       "search's tuner proposes from the results so far. The settings become drafts. Few samples each: "
       "benchmark the winner.",
       with_kernel(
           {{"workloads", workloads()},
            {"values",
             {{"type", "object"},
              {"description",
               "the values to combine, such as {\"TILE\": [2, 4], \"LANES\": [8, 16]}; at most "
               "32 combinations"},
              {"additionalProperties", {{"type", "array"}, {"items", {{"type", {"integer", "string"}}}}}}}},
            {"evaluations", {{"type", "integer"}, {"minimum", 1}, {"maximum", 32}}},
            {"against", id("id of the kernel to compare with, or `none`; if omitted, the kernel itself")},
            {"thorough",
             {{"type", "boolean"}, {"description", "four times the samples, without early end"}}}}),
       tune_variant},
      {"profile", "Profile a kernel",
       "The bottlenecks of a kernel on one workload: roofline, busy units, stall reasons by source line, "
       "occupancy and its limit, as far as the target supports them.",
       with_kernel(
           {{"workload", text("the workload's name; if omitted, the one with the most work")},
            {"full", {{"type", "boolean"}, {"description", "collect all counters, in several passes"}}},
            {"against", id("id of a kernel with a recorded profile, to show the differences")}}),
       profile_variant},
      {"assembly", "Read the machine code of the loops",
       "The innermost loops of a cpu kernel's machine code for one workload, instruction by instruction with "
       "the source line of each, and what they do: vectors and their width, single floats, loads, stores, "
       "calls. Runs nothing.",
       with_kernel({{"workload", text("the workload's name; if omitted, the one with the most work")}}),
       read_assembly},
      {"notes", "Notes between conversations",
       "What others who worked on this run found out, one note a line. With `text`: adds a note for them "
       "first; say what was tried, on which kernel, and what it gave.",
       object({{"text", text("a note to add, on one line", 1000)}}), run_notes},
      {"wait", "Wait for a verdict",
       "Waits until it is decided what becomes of a kernel (a number, or a draft that was submitted): "
       "rejected, slower, or the best. Returns at once if that is known.",
       object({{"variant", id("a number, or the id of a draft that was submitted")},
               {"seconds",
                {{"type", "integer"},
                 {"minimum", 1},
                 {"maximum", 3600},
                 {"description", "how long to wait at most; if omitted, 300"}}}},
              {"variant"}),
       wait_for_verdict},
      {"submit", "Submit a kernel",
       "Submits a draft to the search, which evaluates it from the beginning with new inputs; it becomes the "
       "best only when the gate finds it faster. list_lineage with order=newest shows the outcome.",
       with_kernel({{"note", text("the idea and its expected effect, for the record", 2000)}}, {"note"}),
       submit_variant_tool},
  };
  return all;
}

const Entry* entry_named(const std::string& name) {
  const auto found = std::ranges::find(entries(), name, [](const Entry& e) { return std::string(e.name); });
  return found == entries().end() ? nullptr : &*found;
}

// Keeps the head and the tail, cut at UTF-8 character boundaries.
std::string bounded(std::string words, std::size_t most) {
  if (words.size() <= most) return words;
  const std::size_t head = character_start(words, most * 2 / 3);
  const std::size_t tail = character_start(words, words.size() - most / 3);
  return words.substr(0, head) + fmt::format("\n[... {} bytes omitted ...]\n", tail - head) +
         words.substr(tail);
}

Answer answer_to(ToolSession& session, const Entry& entry, const json& arguments, Watch& watch) {
  if (auto wrong = wrong_arguments(entry.parameters, arguments)) return refused(*wrong);
  try {
    return entry.run(session, arguments, watch);
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

}  // namespace

std::vector<AgentTool> agent_tools(Target target, bool takes_submissions) {
  std::vector<AgentTool> tools;
  for (const Entry& entry : entries()) {
    const bool submits = entry.run == submit_variant_tool;
    if ((submits || entry.run == wait_for_verdict) && !takes_submissions) continue;
    if (entry.run == read_assembly && !target->on_host) continue;
    tools.push_back({{entry.name, entry.about, entry.parameters}, entry.title, submits});
  }
  return tools;
}

Toolbox::Toolbox(Bench& bench, ToolLimits limits)
    : tools_(agent_tools(bench.target(), bench.takes_submissions())),
      session_(new ToolSession{.bench = bench,
                               .limits = limits,
                               .drafts = Drafts(limits.drafts),
                               .turns = DeviceTurns(bench, limits.device_seconds)}) {}
Toolbox::~Toolbox() = default;

bool Toolbox::has(const std::string& name) const {
  return std::ranges::any_of(tools_, [&](const AgentTool& tool) { return tool.spec.name == name; });
}

void Toolbox::tell_others(const std::string& tool, ToolResult& result) {
  constexpr std::size_t kMostShared = 1000;  // bytes of the result
  ToolOutcome outcome;
  outcome.tool = tool;
  outcome.failed = result.failed;
  outcome.text =
      result.text.substr(0, character_start(result.text, std::min(kMostShared, result.text.size())));
  std::string known;
  bool of_draft = false;
  for (const Draft& draft : session_->drafts.all()) {
    of_draft = of_draft || result.text.starts_with(draft.id + " (");
    {
      const std::lock_guard lock(session_->shared_mutex);
      if (!session_->shared.insert(draft.id).second) continue;
    }
    outcome.drafts.push_back({draft.id, draft.variant.source, draft.variant.configuration, draft.base});
    if (known.empty()) known = likeness(*session_, draft);
  }
  if (!result.failed && !known.empty()) result.text += "\n" + known;
  if (outcome.drafts.empty() && !of_draft) return;
  const std::lock_guard lock(session_->shared_mutex);
  const auto shared = session_->bench.share(outcome);
  if (!shared && !session_->share_failed)
    result.text += fmt::format("\nOther conversations do not see these drafts: {}\n", shared.error().message);
  session_->share_failed = !shared;
}

ToolResult Toolbox::call(const std::string& name, const json& arguments, std::stop_token stop,
                         std::function<void(const std::string&)> progress) {
  std::vector<std::string> known;
  for (const AgentTool& tool : tools_) known.push_back(tool.spec.name);
  if (!has(name))
    return {fmt::format("There is no tool `{}`{}", name.substr(0, 60), did_you_mean(name, known)), true};
  Watch watch;
  watch.stop = std::move(stop);
  watch.progress = std::move(progress);
  if (session_->limits.call_seconds > 0.0)
    watch.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(session_->limits.call_seconds));
  auto answer = answer_to(*session_, *entry_named(name), arguments, watch);
  ToolResult result;
  result.failed = !answer;
  result.text = answer ? std::move(*answer) : std::move(answer.error().words);
  tell_others(name, result);
  result.text = bounded(std::move(result.text), session_->limits.result_bytes);
  return result;
}

double Toolbox::device_seconds_used() const {
  return session_->turns.used();
}

std::vector<MadeDraft> Toolbox::drafts() const {
  std::vector<MadeDraft> made;
  for (const Draft& draft : session_->drafts.all())
    made.push_back({draft.id, draft.variant.source, draft.variant.configuration, draft.base});
  return made;
}

void Toolbox::restore(const std::vector<MadeDraft>& made, double device_seconds) {
  for (const MadeDraft& draft : made)
    if (auto variant = make_variant(draft.source, session_->bench.task(), draft.configuration))
      session_->drafts.restore({draft.id, std::move(*variant), draft.base, std::nullopt});
  session_->turns.restore(device_seconds);
}

}  // namespace cultivar
