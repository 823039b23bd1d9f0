// SPDX-License-Identifier: Apache-2.0
#include "engine/store/askings.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>

#include "engine/store/rows.hpp"
#include "engine/store/tool_results.hpp"

namespace cultivar {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Brief, op, model, parents, island, direction, round)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AskingLimits, proposals, questions, closed, closed_operators)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ProposalBody, asking, device_s)

json to_json(const AskedQuestion& q) {
  json body = q.brief;
  body.update({{"asking", q.number},
               {"proposals", q.room.proposals},
               {"closed", q.room.closed},
               {"closed_operators", q.room.closed_operators},
               {"request", q.request_hash},
               {"left_out", q.left_out}});
  return body;
}

AskedQuestion asked_question(const std::string& body) {
  const json j = json::parse(body);
  AskedQuestion q;
  j.get_to(q.brief);
  j.get_to(q.room);
  j.at("asking").get_to(q.number);
  q.room.questions = true;
  j.at("request").get_to(q.request_hash);
  j.at("left_out").get_to(q.left_out);
  return q;
}

std::vector<AskedOn> asked_questions(const Record& record) {
  std::vector<AskedOn> all;
  each_row(record.database(), "SELECT body, stream FROM decisions WHERE kind = 'ask' ORDER BY seq",
           [&](auto& row) {
             all.push_back({asked_question(column<std::string>(row, 0)), column<std::string>(row, 1)});
           });
  return all;
}

std::int64_t given_up_questions(const Record& record) {
  return first_of<std::int64_t>(record.database(), "SELECT count(*) FROM decisions WHERE kind = 'give_up'");
}

std::vector<GivenUpQuestion> newest_given_up(const Record& record, std::size_t most) {
  std::vector<GivenUpQuestion> all;
  each_row(
      record.database(), "SELECT body FROM decisions WHERE kind = 'give_up' ORDER BY seq DESC LIMIT ?",
      [&](auto& row) {
        const auto body = column<json>(row, 0);
        all.push_back({body.at("asking").template get<std::int64_t>(), body.value("reason", std::string()),
                       body.value("why", std::string()) == name_of(NoResult::withdrawn)});
      },
      static_cast<std::int64_t>(most));
  return all;
}

std::string room_body(const AskingLimits& room) {
  return json(room).dump();
}

std::string proposal_body_of(std::int64_t asking, double device_s) {
  return json{{"asking", asking}, {"device_s", device_s}}.dump();
}

ProposalBody proposal_body(const std::string& body) {
  if (body.empty()) return {};
  const json j = json::parse(body);
  auto result = j.get<ProposalBody>();
  result.room = j.get<AskingLimits>();
  return result;
}

std::string call_name(const Brief& brief, std::int64_t asking, std::size_t turn) {
  return fmt::format("{}/{}/{}", brief.op, asking, turn);
}

std::optional<ChatRequest> recorded_request(const Record& record, const std::string& hash) {
  auto q = query(record.database(), "SELECT body FROM requests WHERE hash = ?", hash);
  if (!q.executeStep()) return std::nullopt;
  return request_from_record(column<json>(q, 0));
}

EditedParent edited_parent(ParsedSources& sources, const Archive& archive, const Brief& brief) {
  const Member member = archive.member(brief.parents.at(0));
  const ParsedVariant parsed = sources.recorded(member);
  return {sources.text(member.source_id), member.configuration, parsed ? *parsed : nullptr};
}

RecordedDialogue recorded_dialogue(const Record& record, ParsedSources& sources, const Archive& archive,
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
    dialogue.turns.push_back({request_from_record(column<json>(q, 0)), answer_from_record(column<json>(q, 1)),
                              std::move(results[turn])});
  }
  if (!dialogue.turns.empty())
    dialogue.move = next_move(question.brief, edited_parent(sources, archive, question.brief), sources.task(),
                              kit, dialogue.turns);
  return dialogue;
}

}  // namespace cultivar
