// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/record_views.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/views/individual_view.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/source_files.hpp"
#include "operators/llm/tool_text.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// A record shows what it holds, whatever became of its task.
std::vector<BeyondMemory> beyond_memory_of(const Record& record, const fs::path& folder,
                                           const Evaluation& evaluation) {
  try {
    const auto config = recorded_config(record.facts().config_yaml, RunFolder(folder), {},
                                        installation_of(find_installation()));
    return beyond_memory_in(record.facts().environment, config, evaluation);
  } catch (const InputError&) {
    return {};
  }
}

void print_evaluation(const Evaluation& e, const std::vector<BeyondMemory>& beyond, const Output& output,
                      const std::string& failure = {}) {
  if (e.measured())
    output.line(fmt::format("\nMeasured: {:.4g} {}\n{}", e.fitness, e.unit, evaluation_table(e, "  ")));
  else
    output.line("\n" +
                (failure.empty() ? fmt::format("Rejected at {}: {}", name_of(e.stage), e.reason) : failure));
  if (const std::string exactness = exactness_table(e, "  "); !exactness.empty())
    output.line("\n" + exactness);
  for (const BeyondMemory& each : beyond) output.line(each.words());
  if (e.checked) output.line(checked_words(*e.checked));
  if (e.coverage) output.line(e.coverage->text());
  constexpr std::size_t kMost = 20'000;  // a compiler may write megabytes
  if (e.diagnostics.size() > kMost)
    output.line(fmt::format("{}\n... and {} more bytes: --json has all of them",
                            utf8_text(std::string_view(e.diagnostics).substr(0, kMost)),
                            e.diagnostics.size() - kMost));
  else if (!e.diagnostics.empty())
    output.line(e.diagnostics);
  std::string resources;
  for (const auto& [name, value] : e.resources.values)
    resources += fmt::format("{}{} {:.0f}", resources.empty() ? "" : ", ", name, value);
  if (!resources.empty()) output.line("Resources: " + resources);
  std::string shares;
  for (const auto& [name, value] : e.resources.shares)
    shares += fmt::format("{}{} {:.0f} %", shares.empty() ? "" : ", ", name, value);
  if (!shares.empty()) output.line("Instructions: " + shares);
  output.line(fmt::format("Took {} to compile, {} to check, {} to measure", duration(e.compile_seconds),
                          duration(e.check_seconds), duration(e.measure_seconds)));
}

// A hint for a text that names neither a call nor an individual: the names that exist.
std::string calls_like(const std::vector<ExchangeRow>& rows, const std::string& text) {
  constexpr std::size_t kShown = 12;
  const std::string op = text.substr(0, text.find('/'));
  std::vector<std::string> operators, dialogues;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (std::ranges::find(list, name) == list.end()) list.push_back(name);
  };
  for (const ExchangeRow& row : rows) {
    add(operators, row.op);
    if (row.op == op) add(dialogues, row.call.substr(0, row.call.rfind('/')));
  }
  if (rows.empty()) return "this run has asked no language model";
  if (dialogues.empty())
    return fmt::format(
        "name a call by its operator and number; the operators of this run that asked a model are {}",
        fmt::join(operators, ", "));
  const std::size_t all = dialogues.size();
  if (all > kShown) dialogues.erase(dialogues.begin(), dialogues.end() - kShown);
  return fmt::format("{} question{} by {}{}: {}", all, all == 1 ? "" : "s", op,
                     all > kShown ? fmt::format(", the last {} are", kShown) : "",
                     fmt::join(dialogues, ", "));
}

// How many of the messages of a later step of a dialogue stood in the step before, with the answer to it.
std::size_t known_messages(const ChatRequest& before, const ChatRequest& now) {
  std::size_t known = 0;
  while (known < std::min(before.messages.size(), now.messages.size()) &&
         before.messages[known].role == now.messages[known].role &&
         before.messages[known].text == now.messages[known].text)
    ++known;
  const bool answer = known < now.messages.size() && now.messages[known].role == ChatRole::assistant;
  return known + (known > 0 && answer ? 1 : 0);
}

// A step as people read it: of a later one only what is new.
std::string step_text(ChatRequest request, const std::optional<ChatRequest>& before) {
  if (!before || before->system.size() != request.system.size()) return plain_prompt(request);
  const std::size_t known = known_messages(*before, request);
  if (known == 0) return plain_prompt(request);
  request.system.clear();
  request.tools.clear();
  request.messages.erase(request.messages.begin(),
                         request.messages.begin() + static_cast<std::ptrdiff_t>(known));
  const std::string same =
      fmt::format("(the system text and {} message{} as before)\n\n", known, known == 1 ? "" : "s");
  if (request.messages.empty()) return same;
  return same + plain_prompt(request);
}

// "sent at 2026-11-30 16:02:11 UTC+1, answered after 3 min 10 s".
std::string times_of(const ExchangeRow& row) {
  std::string text = "sent at " + local_time(row.sent_at);
  if (row.state != ExchangeRow::State::sent && row.over_at > row.sent_at)
    text += fmt::format(", {} after {}", row.state == ExchangeRow::State::arrived ? "answered" : "failed",
                        duration(row.over_at - row.sent_at));
  return text;
}

// The exact texts with --json; several calls when a dialogue had several turns.
int show_prompt(const Record& record, const std::string& text, const Output& output, bool as_json) {
  const std::vector<ExchangeRow> rows = exchanges_of(record);
  const bool operator_alone = std::ranges::any_of(
      rows, [&](const ExchangeRow& row) { return row.op == text || row.op + "/" == text; });
  if (operator_alone)
    throw InputError(
        fmt::format("'{}' is an operator; name one of its calls: {}", text, calls_like(rows, text)));
  IndividualId wanted = 0;
  if (text.find('/') == std::string::npos) wanted = find_individual(record, text);
  json all = json::array();
  std::map<std::string, ChatRequest> earlier;  // the last step of each dialogue
  for (const ExchangeRow& row : rows) {
    const bool named = row.call == text || (row.call.starts_with(text) && row.call[text.size()] == '/');
    if (wanted != 0 ? row.used_by != wanted : !named) continue;
    const ExchangeTexts said = exchange_texts(record, row.id);
    if (as_json) {
      all.push_back(exchange_facts(row, said));
      continue;
    }
    all.push_back(row.call);
    output.line(fmt::format("==== {} to {}, attempt {}, {}: {} tokens{}, {:.4f} USD{}\n", row.call, row.model,
                            row.attempt, times_of(row), row.usage.total(),
                            row.usage.estimated ? " (estimated)" : "", row.usd,
                            row.error.empty() ? "" : ", failed: " + row.error + ": " + row.message));
    ChatRequest request = request_from_record(said.request);
    const std::string dialogue = row.call.substr(0, row.call.rfind('/'));
    const auto before = earlier.find(dialogue);
    output.line(step_text(request, before == earlier.end() ? std::nullopt : std::optional(before->second)));
    earlier[dialogue] = std::move(request);
    if (!said.answer.is_object()) continue;
    const ChatAnswer answer = answer_from_record(said.answer);
    output.line("\n==== answer\n\n" + answer.text);
    for (const ToolCall& call : answer.tool_calls)
      output.line(fmt::format("(calls `{}` with {})", call.name, call.arguments));
  }
  if (all.empty())
    throw InputError(
        wanted != 0
            ? fmt::format(
                  "individual {} was not made by a language model; `cultivar show RUN {}` shows its origin",
                  wanted, wanted)
            : fmt::format("this run has no call named '{}': {}", text, calls_like(rows, text)));
  if (as_json) output.facts(all);
  return 0;
}

// In the form that `evaluate` and `submit` accept.
std::vector<std::string> write_source(const fs::path& folder, const std::string& source) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error))
    throw InputError(
        fmt::format("{} already exists and is not an empty folder: choose another --out", folder.string()));
  fs::create_directories(folder, error);
  const SourceFiles files = split_source(source);
  const auto manifest = parse_manifest(source);
  const Language language = manifest ? manifest->language : languages().front();
  std::vector<std::string> written;
  const auto write = [&](const fs::path& file, std::string_view contents) {
    if (auto done = write_atomically(file, std::string(contents)); !done)
      throw InputError(fmt::format("cannot write {}: {}", file.string(), done.error().message));
    written.push_back(file.string());
  };
  write(folder / ("kernel" + language->extension), files.main);
  for (const HeaderFile& header : files.headers)
    if (header_name_trouble(header.name).empty())  // a rejected source may hold anything
      write(folder / header.name, header.text);
  return written;
}

}  // namespace

int show_command(const Arguments& arguments) {
  std::string run, text, out;
  bool only_source = false, prompt = false, as_json = false;
  Options options("show",
                  "Shows one individual of a run: lineage, configuration, evaluation, diagnostics, source.",
                  "cultivar show runs/quickstart best");
  options.argument("RUN", run, "the run's folder, or its name under runs/");
  options.optional_argument(
      "ID", text,
      "an individual's number, four or more digits of its variant id, `best` (the default) or `seed`; RUN:ID "
      "gives both at once");
  options.flag("--source", only_source, "print only the source, followed by its headers");
  options.option("--out", out, "only write the source and its headers as files into this folder");
  options.flag("--prompt", prompt,
               "show the prompts to language models and their answers, of later steps of a dialogue only "
               "what is new: ID "
               "is the individual that they produced, or a prefix of a call's name (mutate/12)");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  if (text.empty()) {
    const auto both = split_run_and_id(run);
    if (both && !both->second.empty())
      std::tie(run, text) = *both;
    else
      text = "best";
  }
  const Record record = open_run(find_installation(), run);
  const fs::path folder = find_run(find_installation(), run);
  if (prompt) return show_prompt(record, text, output, as_json);
  const IndividualId id = find_individual(record, text);
  const std::string source = record.source(id);
  if (!out.empty()) {
    const std::vector<std::string> written = write_source(out, source);
    for (const std::string& file : written) output.line(file);
    if (as_json) output.facts({{"files", written}});
    return 0;
  }
  if (only_source && !as_json) {
    // A program reads it as it is; a terminal would obey its control characters.
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    std::fputs((terminal ? source_lines(utf8_text(source), columns_of(stdout)) : source).c_str(), stdout);
    return 0;
  }
  const IndividualRow row = record.individual(id).value();
  Standings standings(record);
  const DuelResult* const settled = standings.duel(id);
  const auto evaluation = record.evaluation(id), confirmation = record.confirmation(id);
  const bool failed = confirmation && !confirmation->measured();
  const auto profile = record.profile(id);
  const auto before = profile ? profiled_ancestor(record, id, *profile) : std::nullopt;
  if (as_json) {
    output.facts(individual_facts(record, row));
    return 0;
  }
  output.line(
      fmt::format("#{}  {}  {}", id, short_id(row.individual.variant_id), descent_of(row.individual)));
  output.line("Configuration: " + configuration_text(row.individual.configuration));
  if (failed) {
    print_evaluation(*confirmation, {}, output, words_of_failure(*confirmation));
    output.line("\nDuring the search, before that:");
  }
  if (evaluation)
    print_evaluation(*evaluation, beyond_memory_of(record, folder, *evaluation), output);
  else
    output.line("\nNot evaluated yet.");
  for (const DuelRow& duel : record.duels(id))
    output.line(fmt::format("Gate: {} {} #{}: {}", name_of(duel.verdict),
                            duel.verdict == Verdict::undecided ? "against" : "than", duel.incumbent,
                            duel.report.value("/decision/reason"_json_pointer, std::string())));
  if (settled) {
    const std::vector<std::string> workloads = record.facts().workloads;
    std::string each;
    if (workloads.size() == settled->workloads.size())
      for (std::size_t i = 0; i < workloads.size(); ++i)
        each += fmt::format("\n  {}: {}", workloads[i], gain_words(settled->workloads[i]));
    output.line(
        fmt::format("By its last duel: {:.4g}, {}{}", standings.fitness(id), duel_text(*settled), each));
  } else if (const double at_first = standings.fitness(row), measured = row.individual.fitness;
             measured > 0.0 && at_first != measured) {
    output.line(
        fmt::format("Compared as {:.4g}: the device was {} as fast when this was measured as when the "
                    "first best kernel was",
                    at_first, ratio_words(measured / at_first)));
  }
  if (record.outstanding() == id)
    output.line("Its confirmation is pending: it becomes the best when it is confirmed in a fresh process.");
  if (confirmation && !failed) {
    output.line("\nConfirmed in a fresh process with new inputs:");
    print_evaluation(*confirmation, beyond_memory_of(record, folder, *confirmation), output);
  }
  if (profile) output.line("\nProfile\n" + report_text(*profile, before ? &*before : nullptr));
  output.line("\nDescent");
  for (const IndividualRow& ancestor : record.lineage(id))
    output.line(fmt::format("  #{:<6} {:>10} {}{}", ancestor.individual.id,
                            ancestor.state == IndividualState::measured
                                ? fmt::format("{:.4g}", standings.fitness(ancestor.individual.id))
                                : ancestor.stage,
                            descent_of(ancestor.individual),
                            ancestor.expelled ? " (failed confirmation)" : ""));
  output.line("\nSource");
  std::fputs(source_lines(utf8_text(source), columns_of(stdout)).c_str(), stdout);
  return 0;
}

}  // namespace cultivar
