// SPDX-License-Identifier: Apache-2.0
#include "engine/views/kernel_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/store/kernel_lines.hpp"
#include "engine/views/kernel_table.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

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
