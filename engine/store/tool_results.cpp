#include "engine/store/tool_results.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <nlohmann/json.hpp>

#include "engine/store/configuration_json.hpp"

namespace cultivar {

using nlohmann::json;

std::string to_body(const ToolOutcome& outcome) {
  json drafts = json::array();
  for (const MadeDraft& draft : outcome.drafts)
    drafts.push_back({{"id", draft.id},
                      {"source", draft.source},
                      {"configuration", configuration_to_json(draft.configuration)},
                      {"base", draft.base}});
  json body{{"index", outcome.index},      {"tool", outcome.tool},         {"text", outcome.text},
            {"failed", outcome.failed},    {"device_s", outcome.device_s}, {"drafts", std::move(drafts)},
            {"handed_over", json(nullptr)}};
  if (const auto& kernel = outcome.handed_over)
    body["handed_over"] = {{"source", kernel->source},
                           {"configuration", configuration_to_json(kernel->configuration)},
                           {"note", kernel->note}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

ToolOutcome outcome_of_body(const std::string& text) {
  const json body = json::parse(text);
  ToolOutcome outcome;
  outcome.index = body.at("index").get<std::size_t>();
  outcome.tool = body.at("tool").get<std::string>();
  outcome.text = body.at("text").get<std::string>();
  outcome.failed = body.at("failed").get<bool>();
  outcome.device_s = body.at("device_s").get<double>();
  for (const json& draft : body.at("drafts"))
    outcome.drafts.push_back({draft.at("id").get<std::string>(), draft.at("source").get<std::string>(),
                              configuration_from_json(draft.at("configuration")),
                              draft.at("base").get<std::string>()});
  if (const json& kernel = body.at("handed_over"); !kernel.is_null())
    outcome.handed_over =
        HandedOver{kernel.at("source").get<std::string>(),
                   configuration_from_json(kernel.at("configuration")), kernel.at("note").get<std::string>()};
  return outcome;
}

namespace {

bool has_results(const Record& record) {
  return record.database().tableExists("tool_results");  // version 3 on
}

}  // namespace

std::map<std::size_t, std::vector<ToolOutcome>> recorded_results(const Record& record, std::int64_t asking) {
  std::map<std::size_t, std::vector<ToolOutcome>> results;
  if (!has_results(record)) return results;
  SQLite::Statement q(record.database(),
                      "SELECT turn, body FROM tool_results WHERE asking = ? ORDER BY number");
  q.bind(1, asking);
  while (q.executeStep())
    results[static_cast<std::size_t>(q.getColumn(0).getInt64())].push_back(
        outcome_of_body(q.getColumn(1).getString()));
  return results;
}

json tool_use(const Record& record) {
  json all = json::object();
  if (!has_results(record)) return all;
  SQLite::Statement q(record.database(),
                      "SELECT tool, count(*), sum(failed), sum(device_s) FROM tool_results GROUP BY tool");
  while (q.executeStep())
    all[q.getColumn(0).getString()] = {{"calls", q.getColumn(1).getInt64()},
                                       {"failed", q.getColumn(2).getInt64()},
                                       {"device_s", q.getColumn(3).getDouble()}};
  return all;
}

}  // namespace cultivar
