// SPDX-License-Identifier: Apache-2.0
#include "engine/views/kernel_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "engine/store/exchanges.hpp"
#include "engine/store/kernel_lines.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/evaluation_view.hpp"
#include "engine/views/individual_view.hpp"
#include "engine/views/run_views.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/target/language.hpp"
#include "evaluators/variant/tunables.hpp"
#include "operators/llm/tool_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr std::size_t kText = 300;                // bytes of a configuration or a note in a table
constexpr std::size_t kConfiguration = 64 << 10;  // bytes of one that is read
constexpr std::size_t kLongest = 200 << 10;       // of a compiler's output, a prompt or an answer

bool fits(const RunIndex& index, const KernelFacts& k, const TableQuery& query) {
  if (query.state == "promoted"   ? !k.promoted
      : query.state == "expelled" ? !k.expelled
                                  : !query.state.empty() && query.state != name_of(k.state))
    return false;
  if (query.island && *query.island != k.island) return false;
  const auto differs = [&](const std::string& wanted, std::uint32_t word) {
    return !wanted.empty() && wanted != index.word(word);
  };
  return !differs(query.op, k.op) && !differs(query.model, k.model) && !differs(query.stage, k.stage) &&
         !differs(query.reason, k.reason);
}

// Those without a value last.
template <class Key, class Known>
void sort_by(std::vector<const KernelFacts*>& rows, bool descending, const Key& key, const Known& known) {
  const auto end = std::stable_partition(rows.begin(), rows.end(), known);
  if (descending)
    std::ranges::stable_sort(rows.begin(), end, std::greater<>(), key);
  else
    std::ranges::stable_sort(rows.begin(), end, std::less<>(), key);
}

std::vector<const KernelFacts*> sorted(const RunIndex& index, std::vector<const KernelFacts*> rows,
                                       const TableQuery& query) {
  const bool down = query.descending;
  const auto by_word = [&](std::uint32_t KernelFacts::*which) {
    sort_by(
        rows, down, [&](const KernelFacts* k) -> const std::string& { return index.word(k->*which); },
        [&](const KernelFacts* k) { return !index.word(k->*which).empty(); });
  };
  if (query.sort == "fitness")
    sort_by(
        rows, down, [](const KernelFacts* k) { return k->fitness; },
        [](const KernelFacts* k) { return k->fitness > 0.0; });
  else if (query.sort == "time")
    sort_by(
        rows, down, [](const KernelFacts* k) { return k->elapsed_s; },
        [](const KernelFacts* k) { return k->elapsed_s >= 0.0; });
  else if (query.sort == "operator")
    by_word(&KernelFacts::op);
  else if (query.sort == "island")
    sort_by(
        rows, down, [](const KernelFacts* k) { return k->island; }, [](const KernelFacts*) { return true; });
  else if (query.sort == "stage")
    by_word(&KernelFacts::stage);
  else if (down)
    std::ranges::reverse(rows);
  return rows;
}

bool contains(std::string_view text, std::string_view part) {  // in either case of ASCII letters
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

std::vector<const KernelFacts*> those_mentioning(const Record& record, const RunIndex& index,
                                                 const std::string& text) {
  std::set<std::uint32_t> words;
  for (std::uint32_t i = 0; i < index.words(); ++i)
    if (contains(index.word(i), text)) words.insert(i);
  std::set<IndividualId> ids;
  for (const IndividualId id : kernels_mentioning(record, text)) ids.insert(id);
  std::vector<const KernelFacts*> rows;
  for (const KernelFacts& k : index.kernels())
    if (ids.contains(k.id) || words.contains(k.op) || words.contains(k.model) || words.contains(k.stage) ||
        words.contains(k.reason))
      rows.push_back(&k);
  return rows;
}

std::string short_text(const std::string& text) {
  return text.substr(0, character_start(text, kText));
}

}  // namespace

std::string setting_text(const std::string& recorded) {
  try {
    return configuration_text(json::parse(recorded).get<Configuration>());
  } catch (const json::exception&) {
    return recorded;
  }
}

json line_facts(const RunIndex& index, const KernelFacts& k, const KernelTexts& texts) {
  return {{"id", k.id},
          {"state", name_of(k.state)},
          {"promoted", k.promoted},
          {"best", k.id == index.best()},
          {"expelled", k.expelled},
          {"fitness", k.fitness},
          {"measured", k.measured},
          {"stage", index.word(k.stage)},
          {"reason", index.word(k.reason)},
          {"parent", k.parent},
          {"operator", index.word(k.op)},
          {"model", index.word(k.model)},
          {"island", k.island},
          {"elapsed_s", k.elapsed_s >= 0.0 ? json(k.elapsed_s) : json()},
          {"usd", k.usd},
          {"tokens", k.tokens},
          {"configuration", texts.configuration},
          {"note", texts.note}};
}

namespace {

std::vector<std::string> words_in_use(const RunIndex& index, std::uint32_t KernelFacts::*which) {
  std::set<std::uint32_t> numbers;
  for (const KernelFacts& k : index.kernels()) numbers.insert(k.*which);
  std::vector<std::string> words;
  for (const std::uint32_t number : numbers)
    if (!index.word(number).empty()) words.push_back(index.word(number));
  std::ranges::sort(words);
  return words;
}

// Without raw samples, with the intervals that follow from them.
json timed_facts(const Evaluation& evaluation) {
  constexpr int kResamples = 400;
  json facts = evaluation;
  facts.erase("workloads");
  facts["workloads"] = workload_facts(evaluation);
  for (std::size_t i = 0; i < evaluation.workloads.size(); ++i) {
    const WorkloadResult& w = evaluation.workloads[i];
    json& row = facts["workloads"][i];
    std::vector<double> times;
    for (const Sample& sample : w.samples) times.push_back(1e6 * sample.seconds);
    if (times.size() > 1) {
      const Interval bounds = bootstrap_interval(times, median, 0.95, 1, kResamples);
      row["interval_us"] = {bounds.lower, bounds.upper};
    }
    json intervals = json::object();
    for (const auto& [name, interval] : w.ratio_intervals) intervals[name] = {interval.lower, interval.upper};
    row["ratio_intervals"] = intervals;
  }
  facts["best_contender"] = contender_facts(evaluation);
  facts["exactness_rows"] = exactness_rows(evaluation);
  facts["exactness_words"] = exactness_words(evaluation);
  facts["checked_words"] = evaluation.checked ? checked_words(*evaluation.checked) : "";
  facts["diagnostics"] = evaluation.diagnostics.substr(0, character_start(evaluation.diagnostics, kLongest));
  return facts;
}

// The calls of the question from which it comes, as people read them.
json calls_of(const Record& record, const RunIndex& index, const KernelFacts& k) {
  constexpr std::size_t kMostCalls = 60;
  json calls = json::array();
  if (k.question == 0) return calls;
  const auto cut = [](const std::string& text) { return text.substr(0, character_start(text, kLongest)); };
  for (const ExchangeRow& row : exchanges_of_question(record, index.word(k.op), k.question)) {
    if (calls.size() == kMostCalls) break;
    const ExchangeTexts said = exchange_texts(record, row.id);
    json call = exchange_facts(row, {});
    call.erase("request");
    call.erase("answer");
    try {
      call["prompt"] = cut(plain_prompt(request_from_record(said.request)));
      if (said.answer.is_object()) {
        const ChatAnswer answer = answer_from_record(said.answer);
        std::string text = answer.text;
        for (const ToolCall& tool : answer.tool_calls)
          text += fmt::format("\n(calls `{}` with {})", tool.name, tool.arguments);
        call["said"] = cut(text);
      }
    } catch (const std::exception& error) {
      call["prompt"] = fmt::format("(cannot be read: {})", error.what());
    }
    calls.push_back(call);
  }
  return calls;
}

}  // namespace

json table_view(const Record& record, const RunIndex& index, const TableQuery& query) {
  std::vector<const KernelFacts*> rows;
  if (query.text.empty())
    for (const KernelFacts& k : index.kernels()) rows.push_back(&k);
  else
    rows = those_mentioning(record, index, query.text);
  std::erase_if(rows, [&](const KernelFacts* k) { return !fits(index, *k, query); });
  rows = sorted(index, std::move(rows), query);
  const std::size_t from = std::min(query.from, rows.size());
  const std::size_t end = std::min(rows.size(), from + std::min(query.count, most_rows));
  std::vector<IndividualId> ids;
  for (std::size_t i = from; i < end; ++i) ids.push_back(rows[i]->id);
  const std::vector<KernelTexts> texts = kernel_texts(record, ids, kConfiguration);
  json page = json::array();
  for (std::size_t i = from; i < end; ++i) {
    const KernelTexts& each = texts[i - from];
    page.push_back(
        line_facts(index, *rows[i], {short_text(setting_text(each.configuration)), short_text(each.note)}));
  }
  std::set<int> islands;
  for (const KernelFacts& k : index.kernels()) islands.insert(k.island);
  return {{"rows", page},
          {"all", rows.size()},
          {"from", from},
          {"operators", words_in_use(index, &KernelFacts::op)},
          {"models", words_in_use(index, &KernelFacts::model)},
          {"stages", words_in_use(index, &KernelFacts::stage)},
          {"islands", islands}};
}

json variant_view(const Record& record, const RunIndex& index, IndividualId id) {
  const KernelFacts* const k = index.find(id);
  const auto row = k ? record.individual(id) : std::nullopt;
  if (!row) return {};
  json view = individual_facts(record, *row);
  if (const auto evaluation = record.evaluation(id)) view["evaluation"] = timed_facts(*evaluation);
  if (const auto confirmation = record.confirmation(id)) view["confirmation"] = timed_facts(*confirmation);
  json duels = json::array();
  for (const DuelRow& duel : record.duels(id))  // the times of an undecided one may be long
    duels.push_back({{"incumbent", duel.incumbent},
                     {"verdict", name_of(duel.verdict)},
                     {"at", duel.at},
                     {"decision", duel.report.value("decision", json())}});
  view["duels"] = duels;
  const json facts = row_facts(index, *k);
  for (const char* const name : {"promoted", "best", "expelled", "elapsed_s"}) view[name] = facts[name];
  view["proposed_at"] = row->proposed_at;
  view["judged_at"] = k->judged_at;
  view["confirmed_at"] = evaluated_at(record, id, Examination::confirm);
  const auto beside = ratio_to_seed(record, id);
  view["seed_ratio"] = beside ? json{{"ratio", beside->ratio}, {"beside", beside->beside}} : json();
  view["paced"] = k->pace != 1.0;
  view["file"] = source_file(record, id);
  view["workload_names"] = record.facts().workloads;
  view["unit"] = record.facts().unit_of_fitness;
  const auto parent = k->parent == 0 ? std::nullopt : record.individual(k->parent);
  view["parent_source"] = parent && parent->individual.source_id != row->individual.source_id
                              ? json(record.source(k->parent))
                              : json();
  view["change"] = parent ? change_of(parent->individual, row->individual) : "";
  view["parent_fitness"] =
      k->parent == 0 || !index.find(k->parent) ? json() : json(index.find(k->parent)->fitness);
  view["descent"] = index.line_to(id);
  view["calls"] = calls_of(record, index, *k);
  view["usd"] = k->usd;
  view["tokens"] = k->tokens;
  return view;
}

std::string source_file(const Record& record, IndividualId id) {
  const RunFacts facts = record.facts();
  std::string stem;
  for (const unsigned char c : facts.name.substr(0, 60))
    stem += std::isalnum(c) || c == '-' ? static_cast<char>(c) : '_';
  const Target target = find_target(facts.target);
  const std::string source = record.source(id);
  const auto own = std::ranges::find_if(languages(), [&](Language language) {
    return target && compiles_for(language, target) &&
           source.find(language->comments.manifest_opening()) != std::string::npos;
  });
  return fmt::format("{}_{}{}", stem, id, own == languages().end() ? ".txt" : (*own)->extension);
}

json compact_table(const Record& record, const RunIndex& index) {
  constexpr std::size_t kNote = 2000, kMostText = 24 << 20;  // bytes
  json rows = json::array(), words = json::array();
  std::unordered_map<std::string, std::size_t> numbers;
  std::size_t bytes = 0;
  std::int64_t cut = 0;
  const auto number = [&](const std::string& word) {
    const auto [at, added] = numbers.try_emplace(word, words.size());
    if (added) {
      words.push_back(word);
      bytes += word.size();
    }
    return at->second;
  };
  const auto short_number = [](double value) {
    return value == 0.0 ? json(0) : json(std::stod(fmt::format("{:.6g}", value)));
  };
  for (auto k = index.kernels().rbegin(); k != index.kernels().rend(); ++k) {
    KernelTexts texts = kernel_texts(record, {k->id}, kConfiguration).front();
    texts.configuration = setting_text(texts.configuration);
    const bool fits = bytes + texts.configuration.size() + texts.note.size() <= kMostText;
    cut += !fits || texts.note.size() > kNote;
    if (!fits) texts = {};
    rows.push_back({k->id, static_cast<int>(k->state) + (k->promoted ? 4 : 0) + (k->expelled ? 8 : 0),
                    short_number(k->fitness), k->parent, number(index.word(k->op)),
                    number(index.word(k->model)), number(index.word(k->stage)), number(index.word(k->reason)),
                    k->island, short_number(k->elapsed_s), number(texts.configuration),
                    number(texts.note.substr(0, character_start(texts.note, kNote)))});
  }
  std::ranges::reverse(rows);
  return {{"columns",
           {"id", "state", "fitness", "parent", "operator", "model", "stage", "reason", "island", "elapsed_s",
            "configuration", "note"}},
          {"words", words},
          {"cut", cut},
          {"rows", rows}};
}

using nlohmann::json;

namespace {

// Always in quotes; a spreadsheet must not take a text for a formula.
std::string csv_text(const std::string& raw) {
  const std::string text = utf8_text(raw);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  std::string quoted =
      first != std::string::npos && std::string_view("=+-@").find(text[first]) != std::string::npos ? "\"'"
                                                                                                    : "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_cell(const json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.is_string() ? csv_text(value.get_ref<const std::string&>()) : value.dump();
}

// An individual as a file says it: null for what was not measured.
json exported_facts(const RunIndex& index, const KernelFacts& k, const KernelTexts& texts) {
  json line = line_facts(index, k, texts);
  if (!(k.fitness > 0.0)) line["fitness"] = line["measured"] = nullptr;
  if (k.parent == 0) line["parent"] = nullptr;
  if (k.model == 0 && k.tokens == 0) line["usd"] = line["tokens"] = nullptr;
  if (index.word(k.stage).empty()) line["stage"] = line["reason"] = nullptr;
  return line;
}

}  // namespace

const std::vector<FileColumn>& file_columns() {
  static const std::vector<FileColumn> columns{
      {"id", "its number, from 1 on"},
      {"state", "proposed (not evaluated yet), measured or rejected"},
      {"promoted", "whether it became the best of the run (CSV: 1 or 0)"},
      {"expelled", "whether it failed its confirmation in a fresh process (CSV: 1 or 0)"},
      {"fitness",
       "speed in the run's unit, from its duel, or scaled to the device's speed at the start; empty: not "
       "measured"},
      {"measured", "speed in the run's unit, as it was measured"},
      {"stage", "the last stage of its evaluation, at which it was rejected if it was; empty: not evaluated"},
      {"reason", "why it was rejected"},
      {"parent", "the number of its first parent; empty: none"},
      {"operator", "what made it: seed, submission, or an operator"},
      {"model", "the language model that wrote it"},
      {"island", "the number of its population, from 0 on"},
      {"elapsed_s", "seconds of search time until it was judged; empty: not yet"},
      {"usd", "US dollars for the calls to models that made it; empty: none was asked"},
      {"tokens", "tokens of these calls, read and written"},
      {"configuration", "values of its tunables (CSV: NAME=VALUE, separated by spaces)"},
      {"note", "what its maker says of it"}};
  return columns;
}

void each_csv_line(const Record& record, const RunIndex& index,
                   const std::function<void(std::string_view)>& write) {
  std::string heads;
  for (const FileColumn& column : file_columns())
    heads += (heads.empty() ? "" : ",") + std::string(column.name);
  write(heads + "\n");
  for (const KernelFacts& k : index.kernels()) {
    json facts = exported_facts(index, k, kernel_texts(record, {k.id}, 64 << 10).front());
    facts["configuration"] = setting_text(facts["configuration"].get<std::string>());
    std::string line;
    for (const FileColumn& column : file_columns())
      line += (&column == &file_columns().front() ? "" : ",") + csv_cell(facts[column.name]);
    write(line + "\n");
  }
}

void each_json_line(const Record& record, const RunIndex& index,
                    const std::function<void(std::string_view)>& write) {
  for (const KernelFacts& k : index.kernels()) {
    const KernelTexts texts = kernel_texts(record, {k.id}, 64 << 10).front();
    json line = exported_facts(index, k, texts);
    const json configuration = json::parse(texts.configuration, nullptr, false);
    if (!configuration.is_discarded()) line["configuration"] = configuration;
    write(json_text(line) + "\n");
  }
}

}  // namespace cultivar
