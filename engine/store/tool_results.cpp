#include "engine/store/tool_results.hpp"

#include <SQLiteCpp/Database.h>

#include "engine/store/rows.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/variant/configuration_json.hpp"

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
