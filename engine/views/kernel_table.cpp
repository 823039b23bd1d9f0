// SPDX-License-Identifier: Apache-2.0
#include "engine/views/kernel_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "engine/store/exchanges.hpp"
#include "engine/views/evaluation_view.hpp"
#include "engine/views/individual_view.hpp"
#include "evaluators/statistics/bootstrap.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/llm/plain_prompt.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr std::size_t kText = 300;           // bytes of a configuration or a note in a table
constexpr std::size_t kLongest = 200 << 10;  // of a compiler's output, a prompt or an answer

bool fits(const RunIndex& index, const KernelFacts& k, const TableQuery& query) {
  if (query.state == "promoted" ? !k.promoted : !query.state.empty() && query.state != name_of(k.state))
    return false;
  if (query.island && *query.island != k.island) return false;
  const auto differs = [&](const std::string& wanted, std::uint32_t word) {
    return !wanted.empty() && wanted != index.word(word);
  };
  return !differs(query.op, k.op) && !differs(query.model, k.model) && !differs(query.stage, k.stage);
}

template <class Key>
void sort_by(std::vector<const KernelFacts*>& rows, bool descending, const Key& key) {
  if (descending)
    std::ranges::stable_sort(rows, std::greater<>(), key);
  else
    std::ranges::stable_sort(rows, std::less<>(), key);
}

}  // namespace

json line_facts(const RunIndex& index, const KernelFacts& k, const KernelTexts& texts) {
  return {{"id", k.id},
          {"state", name_of(k.state)},
          {"promoted", k.promoted},
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
  if (query.text.empty()) {
    for (const KernelFacts& k : index.kernels())
      if (fits(index, k, query)) rows.push_back(&k);
  } else {
    for (const IndividualId id : kernels_mentioning(record, query.text))
      if (const KernelFacts* const k = index.find(id); k && fits(index, *k, query)) rows.push_back(k);
  }
  const bool down = query.descending;
  if (query.sort == "fitness")
    sort_by(rows, down, [](const KernelFacts* k) { return k->fitness; });
  else if (query.sort == "time")
    sort_by(rows, down, [](const KernelFacts* k) { return k->elapsed_s; });
  else if (query.sort == "operator")
    sort_by(rows, down, [&](const KernelFacts* k) -> const std::string& { return index.word(k->op); });
  else if (query.sort == "island")
    sort_by(rows, down, [](const KernelFacts* k) { return k->island; });
  else if (query.sort == "stage")
    sort_by(rows, down, [&](const KernelFacts* k) -> const std::string& { return index.word(k->stage); });
  else if (down)
    std::ranges::reverse(rows);
  const std::size_t from = std::min(query.from, rows.size());
  const std::size_t end = std::min(rows.size(), from + std::min(query.count, most_rows));
  std::vector<IndividualId> ids;
  for (std::size_t i = from; i < end; ++i) ids.push_back(rows[i]->id);
  const std::vector<KernelTexts> texts = kernel_texts(record, ids, kText);
  json page = json::array();
  for (std::size_t i = from; i < end; ++i) page.push_back(line_facts(index, *rows[i], texts[i - from]));
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
                     {"decision", duel.report.value("decision", json())}});
  view["duels"] = duels;
  view["promoted"] = k->promoted;
  view["elapsed_s"] = k->elapsed_s;
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

json compact_table(const RunIndex& index) {
  json rows = json::array(), words = json::array();
  std::unordered_map<std::uint32_t, std::size_t> numbers;
  const auto number = [&](std::uint32_t word) {
    const auto [at, added] = numbers.try_emplace(word, words.size());
    if (added) words.push_back(index.word(word));
    return at->second;
  };
  const auto short_number = [](double value) {
    return value == 0.0 ? json(0) : json(std::stod(fmt::format("{:.6g}", value)));
  };
  for (const KernelFacts& k : index.kernels())
    rows.push_back({k.id, static_cast<int>(k.state) + (k.promoted ? 4 : 0) + (k.expelled ? 8 : 0),
                    short_number(k.fitness), k.parent, number(k.op), number(k.model), number(k.stage),
                    number(k.reason), k.island, short_number(k.elapsed_s)});
  return {
      {"columns",
       {"id", "state", "fitness", "parent", "operator", "model", "stage", "reason", "island", "elapsed_s"}},
      {"words", words},
      {"rows", rows}};
}

}  // namespace cultivar
