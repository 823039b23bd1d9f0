#include "engine/store/askings.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "engine/store/tool_results.hpp"

namespace cultivar {

using nlohmann::json;

json to_json(const AskedQuestion& q) {
  const Brief& b = q.brief;
  return {{"asking", q.number},
          {"op", b.op},
          {"model", b.model},
          {"parents", b.parents},
          {"island", b.island},
          {"direction", b.direction},
          {"round", b.round},
          {"closed", q.room.closed},
          {"closed_operators", q.room.closed_operators},
          {"request", q.request_hash},
          {"left_out", q.left_out}};
}

AskedQuestion asked_question(const std::string& body) {
  const json j = json::parse(body);
  AskedQuestion q;
  q.number = j.at("asking").get<std::int64_t>();
  q.brief.op = j.at("op").get<std::string>();
  q.brief.model = j.at("model").get<std::string>();
  q.brief.parents = j.at("parents").get<std::vector<IndividualId>>();
  q.brief.island = j.at("island").get<int>();
  q.brief.direction = j.at("direction").get<std::string>();
  q.brief.round = j.at("round").get<int>();
  q.room.questions = true;
  q.room.closed = j.at("closed").get<std::set<std::string>>();
  q.room.closed_operators = j.value("closed_operators", std::set<std::string>());
  q.request_hash = j.at("request").get<std::string>();
  q.left_out = j.at("left_out").get<std::vector<std::string>>();
  return q;
}

std::vector<AskedOn> asked_questions(const Record& record) {
  std::vector<AskedOn> all;
  SQLite::Statement q(record.database(),
                      "SELECT body, stream FROM decisions WHERE kind = 'ask' ORDER BY seq");
  while (q.executeStep())
    all.push_back({asked_question(q.getColumn(0).getString()), q.getColumn(1).getString()});
  return all;
}

std::int64_t given_up_questions(const Record& record) {
  SQLite::Statement q(record.database(), "SELECT count(*) FROM decisions WHERE kind = 'give_up'");
  return q.executeStep() ? q.getColumn(0).getInt64() : 0;
}

std::string room_body(const Room& room) {
  return json{
      {"questions", room.questions}, {"closed", room.closed}, {"closed_operators", room.closed_operators}}
      .dump();
}

std::string proposal_body_of(std::int64_t asking, double device_s) {
  return json{{"asking", asking}, {"device_s", device_s}}.dump();
}

ProposalBody proposal_body(const std::string& body) {
  ProposalBody result;
  if (body.empty()) return result;
  const json j = json::parse(body);
  result.asking = j.value("asking", std::int64_t{0});
  result.device_s = j.value("device_s", 0.0);
  result.room.questions = j.value("questions", false);
  result.room.closed = j.value("closed", std::set<std::string>());
  result.room.closed_operators = j.value("closed_operators", std::set<std::string>());
  return result;
}

std::string call_name(const Brief& brief, std::int64_t asking, std::size_t turn) {
  return fmt::format("{}/{}/{}", brief.op, asking, turn);
}

std::optional<ChatRequest> recorded_request(const Record& record, const std::string& hash) {
  SQLite::Statement q(record.database(), "SELECT body FROM requests WHERE hash = ?");
  q.bind(1, hash);
  if (!q.executeStep()) return std::nullopt;
  return request_from_record(json::parse(q.getColumn(0).getString()));
}

EditedParent edited_parent(const Record& record, const Archive& archive, const Brief& brief) {
  const Member member = archive.member(brief.parents.at(0));
  return {record.source_named(member.source_id), member.configuration};
}

RecordedDialogue recorded_dialogue(const Record& record, const Archive& archive, const Task& task,
                                   const PromptKit& kit, const AskedQuestion& question) {
  RecordedDialogue dialogue;
  SQLite::Statement q(
      record.database(),
      "SELECT r.body, e.answer FROM exchanges e JOIN requests r ON r.number = e.request WHERE "
      "e.call = ? AND e.state = 1 ORDER BY e.number LIMIT 1");
  auto results = recorded_results(record, question.number);
  for (std::size_t turn = 0;; ++turn) {
    q.reset();
    q.bind(1, call_name(question.brief, question.number, turn));
    if (!q.executeStep()) break;
    dialogue.turns.push_back({request_from_record(json::parse(q.getColumn(0).getString())),
                              answer_from_record(json::parse(q.getColumn(1).getString())),
                              std::move(results[turn])});
  }
  if (!dialogue.turns.empty())
    dialogue.move =
        next_move(question.brief, edited_parent(record, archive, question.brief), task, kit, dialogue.turns);
  return dialogue;
}

}  // namespace cultivar
