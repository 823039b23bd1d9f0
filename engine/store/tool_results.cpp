#include "engine/store/tool_results.hpp"

#include <SQLiteCpp/Database.h>

#include <charconv>

#include "engine/store/rows.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/variant/configuration_json.hpp"
#include "operators/prompts/one_line.hpp"

namespace cultivar {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MadeDraft, id, source, configuration, base)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SubmittedKernel, source, configuration, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ToolOutcome, index, tool, text, failed, device_s, drafts, handed_over)

std::string to_body(const ToolOutcome& outcome) {
  return json_text(outcome);
}

ToolOutcome outcome_of_body(const std::string& text) {
  return json::parse(text).get<ToolOutcome>();
}

namespace {

bool has_results(const Record& record) {
  return record.database().tableExists("tool_results");  // version 3 on
}

}  // namespace

std::map<std::size_t, std::vector<ToolOutcome>> recorded_results(const Record& record, std::int64_t asking) {
  std::map<std::size_t, std::vector<ToolOutcome>> results;
  if (!has_results(record)) return results;
  each_row(
      record.database(), "SELECT turn, body FROM tool_results WHERE asking = ? ORDER BY number",
      [&](auto& row) {
        results[column<std::size_t>(row, 0)].push_back(outcome_of_body(column<std::string>(row, 1)));
      },
      asking);
  return results;
}

namespace {

// Adds the drafts of one question, oldest first.
void add_drafts(const Record& record, std::int64_t asking, std::vector<RecordedDraft>& all) {
  const std::size_t first = all.size();
  for (const auto& [turn, outcomes] : recorded_results(record, asking))
    for (const ToolOutcome& outcome : outcomes) {
      for (const MadeDraft& made : outcome.drafts) {
        std::string origin = made.base;
        for (std::size_t i = first; i < all.size(); ++i)
          if (all[i].draft.id == made.base) origin = all[i].origin;
        all.push_back({asking, made, origin, {}, {}});
      }
      // A tool's result begins with the id of its kernel, on a line of its own.
      for (std::size_t i = first; i < all.size(); ++i)
        if (outcome.text.starts_with(all[i].draft.id + " (")) {
          const std::size_t line = outcome.text.find('\n');
          all[i].tool = outcome.tool;
          all[i].result = line == std::string::npos
                              ? std::string()
                              : one_line_of(std::string_view(outcome.text).substr(line + 1), 200);
        }
    }
}

}  // namespace

std::vector<RecordedDraft> recorded_drafts(const Record& record, std::size_t most) {
  std::vector<std::int64_t> questions;
  if (has_results(record))
    each_row(record.database(), "SELECT DISTINCT asking FROM tool_results ORDER BY asking DESC",
             [&](auto& row) { questions.push_back(column<std::int64_t>(row, 0)); });
  std::vector<RecordedDraft> newest;
  for (const std::int64_t asking : questions) {
    if (newest.size() >= most) break;
    std::vector<RecordedDraft> own;
    add_drafts(record, asking, own);
    newest.insert(newest.end(), own.rbegin(), own.rend());
  }
  if (newest.size() > most) newest.resize(most);
  return newest;
}

std::optional<RecordedDraft> recorded_draft(const Record& record, const std::string& id) {
  std::int64_t asking = 0;
  const std::size_t dot = id.find('.');
  if (!id.starts_with('q') || dot == std::string::npos ||
      std::from_chars(id.data() + 1, id.data() + dot, asking).ec != std::errc())
    return std::nullopt;
  std::vector<RecordedDraft> own;
  add_drafts(record, asking, own);
  for (RecordedDraft& draft : own)
    if (draft.id() == id) return std::move(draft);
  return std::nullopt;
}

json tool_use(const Record& record) {
  json all = json::object();
  if (!has_results(record)) return all;
  each_row(
      record.database(),
      "SELECT tool, count(*), sum(failed), sum(device_s) FROM tool_results WHERE tool <> ? GROUP BY tool",
      [&](auto& row) {
        all[column<std::string>(row, 0)] = {{"calls", column<std::int64_t>(row, 1)},
                                            {"failed", column<std::int64_t>(row, 2)},
                                            {"device_s", column<double>(row, 3)}};
      },
      std::string(kSimilarIdea));
  return all;
}

}  // namespace cultivar
