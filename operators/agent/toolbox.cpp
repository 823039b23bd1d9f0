#include "operators/agent/toolbox.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/yaml/nearest_name.hpp"
#include "operators/agent/tool_arguments.hpp"
#include "operators/agent/tool_session.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

constexpr int kSourceLimit = 1 << 20;

json text(const char* about, int most = 200) {
  return {{"type", "string"}, {"description", about}, {"maxLength", most}};
}

json object(json properties, std::vector<std::string> required = {}) {
  json schema = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

// How a call names the kernel that it is about.
json with_kernel(json properties, std::vector<std::string> required = {}) {
  properties["variant"] =
      text("id of a kernel: a number of the lineage, `best`, `seed`, a draft (`d1`) or a seed's name");
  properties["edit"] = text(
      "change `variant` first: one or more blocks of\n<<<<<<< SEARCH\nwhole lines of its source, letter for "
      "letter, enough to be found once\n"
      "=======\nlines that take their place\n>>>>>>> REPLACE",
      kSourceLimit);
  properties["source"] =
      text("a whole source with its manifest, and its headers if any, in place of `variant` and `edit`",
           kSourceLimit);
  properties["tunables"] = {
      {"type", "object"},
      {"description", "values of tunables; others keep the variant's, or their default"},
      {"additionalProperties", {{"type", {"integer", "string"}}}}};
  return object(std::move(properties), std::move(required));
}

json workloads() {
  return {{"type", "array"},
          {"items", {{"type", "string"}}},
          {"maxItems", 64},
          {"description", "names of the workloads to use; otherwise all that the kernel claims"}};
}

struct Entry {
  const char *name, *title, *about;
  json parameters;
  ToolFunction run;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"list_lineage", "List kernels",
       "The state of the search and a list of kernels, one a line: id, fitness or why it was rejected, "
       "parents, "
       "operator, tunables, idea. By default those that became the best, in order; drafts of this session "
       "follow.",
       object({{"of", text("only the line that led to this kernel, and its children")},
               {"order", {{"type", "string"}, {"enum", {"promotions", "fittest", "newest"}}}},
               {"limit", {{"type", "integer"}, {"minimum", 1}, {"maximum", 200}}},
               {"offset", {{"type", "integer"}, {"minimum", 0}, {"maximum", 100'000'000}}}}),
       list_lineage},
      {"read_variant", "Read a kernel",
       "One kernel: descent, measurements by workload or why it was rejected with diagnostics, profile, and "
       "its "
       "source as it is. Long sources come in parts.",
       object({{"variant", text("id of a kernel: a number, `best`, `seed`, a draft (`d1`) or a seed's name")},
               {"from_line", {{"type", "integer"}, {"minimum", 1}, {"maximum", 1'000'000}}},
               {"lines", {{"type", "integer"}, {"minimum", 1}, {"maximum", 100'000}}}},
              {"variant"}),
       read_variant},
      {"diff", "Compare two sources",
       "What differs between two kernels: fitness, tunables, and a unified diff.",
       object({{"a", text("id of the older")}, {"b", text("id of the newer")}}, {"a", "b"}), diff_variants},
      {"read_knowledge", "Read knowledge",
       "Without arguments: what there is to read. With `name`: one page (`task` says what must be computed "
       "and how "
       "it is judged, `variant_format` how a kernel and its manifest are written, `device` the hardware's "
       "numbers) "
       "or one note on making kernels fast. With `bottleneck` or `compiler_output`: which notes help.",
       object({{"name", text("of a page or note")},
               {"bottleneck", text("as a profile names it, like stall_long_scoreboard")},
               {"compiler_output", text("what a compiler said", 20'000)}}),
       read_knowledge},
      {"compile", "Compile a kernel",
       "Compiles a kernel for the workloads and screens the machine code: resources of each binary, "
       "warnings; or "
       "where it was refused, with the compiler's output. New sources become drafts, whose ids later calls "
       "take.",
       with_kernel({{"workloads", workloads()}}), compile_variant},
      {"check", "Check a kernel",
       "Compiles a kernel, runs it in its sandbox and compares every output with the fp64 oracle on fresh "
       "secret "
       "inputs: smoke, sweep, stress, determinism, edge. Says the stage that failed and the first wrong "
       "element.",
       with_kernel({{"workloads", workloads()},
                    {"up_to",
                     {{"type", "string"},
                      {"enum", {"smoke", "sweep", "stress", "determinism", "edge"}},
                      {"description", "the last stage; otherwise all"}}}}),
       check_variant},
      {"benchmark", "Benchmark a kernel",
       "Checks a kernel and times it on every workload, in turn with the best kernel so far (or `against`): "
       "median, "
       "quartiles and ratio with its interval by workload. Takes from seconds to minutes; `thorough` four "
       "times as long, for "
       "small "
       "differences and busy machines.",
       with_kernel({{"workloads", workloads()},
                    {"against", text("id of what is timed beside it, or `none`; otherwise the best")},
                    {"thorough", {{"type", "boolean"}, {"description", "four times the samples"}}}}),
       benchmark_variant},
      {"profile", "Profile a kernel",
       "What limits a kernel on one workload: roofline, busy units, stall reasons by source line, occupancy "
       "and its "
       "bound, as far as this target can tell.",
       with_kernel({{"workload", text("by name; otherwise the one with most work")},
                    {"full", {{"type", "boolean"}, {"description", "every counter, in several passes"}}},
                    {"against", text("id of a kernel with a recorded profile: what differs from it")}}),
       profile_variant},
      {"submit", "Submit a kernel",
       "Hands a draft over to the search, which judges it from the beginning with fresh inputs; it becomes "
       "the best "
       "only when the gate says that it is faster. list_lineage with order=newest shows what became of it.",
       with_kernel({{"note", text("its idea and what you expect of it, for the record", 2000)}}, {"note"}),
       submit_variant_tool},
  };
  return all;
}

const Entry* entry_named(const std::string& name) {
  const auto found = std::ranges::find(entries(), name, [](const Entry& e) { return std::string(e.name); });
  return found == entries().end() ? nullptr : &*found;
}

// Head and tail; cut between characters of UTF-8.
std::string bounded(std::string words, std::size_t most) {
  if (words.size() <= most) return words;
  const auto boundary = [&](std::size_t at) {
    while (at > 0 && (static_cast<unsigned char>(words[at]) & 0xC0) == 0x80) --at;
    return at;
  };
  const std::size_t head = boundary(most * 2 / 3), tail = boundary(words.size() - most / 3);
  return words.substr(0, head) + fmt::format("\n[... {} bytes left out ...]\n", tail - head) +
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

std::vector<AgentTool> agent_tools(bool takes_submissions) {
  std::vector<AgentTool> tools;
  for (const Entry& entry : entries()) {
    const bool submits = entry.run == submit_variant_tool;
    if (submits && !takes_submissions) continue;
    tools.push_back({{entry.name, entry.about, entry.parameters}, entry.title, submits});
  }
  return tools;
}

Toolbox::Toolbox(Bench& bench, ToolLimits limits)
    : tools_(agent_tools(bench.takes_submissions())),
      session_(
          new ToolSession{bench, limits, Drafts(limits.drafts), DeviceTurns(bench, limits.device_seconds)}) {}
Toolbox::~Toolbox() = default;

bool Toolbox::has(const std::string& name) const {
  return std::ranges::any_of(tools_, [&](const AgentTool& tool) { return tool.spec.name == name; });
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
    watch.deadline =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(session_->limits.call_seconds));
  auto answer = answer_to(*session_, *entry_named(name), arguments, watch);
  const std::size_t most = session_->limits.result_bytes;
  if (!answer) return {bounded(std::move(answer.error().words), most), true};
  return {bounded(std::move(*answer), most), false};
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
