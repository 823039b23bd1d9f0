// Language models: what goes out to them from the steward, and what comes of their answers.
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/chronicle.hpp"
#include "engine/search_loop.hpp"

namespace cultivar {

using nlohmann::json;

Room SearchLoop::room() const {
  Room room;
  if (!correspondence_) return room;
  for (const auto& [model, why] : closed_models_) room.closed.insert(model);
  room.questions = static_cast<int>(dialogues_.size()) < config_.asking.in_flight;
  return room;
}

std::string SearchLoop::nobody_to_ask() const {
  std::string reasons;
  for (const Portfolio::Arm& arm : breeding_.arms()) {
    if (arm.model.empty()) continue;
    const auto closed = closed_models_.find(arm.model);
    if (closed == closed_models_.end()) return {};
    const std::string words = fmt::format("{}: {}", arm.model, closed->second);
    if (reasons.find(words) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + words;
  }
  return reasons.empty() ? reasons : "no language model can be asked any more: " + reasons;
}

void SearchLoop::ask(const Asking& asking, const Room& room) {
  std::vector<std::string> left_out;
  ChatRequest request =
      opening_of(asking.brief, journal_.record(), breeding_, journal_.record().facts(), kit_, left_out);
  Dialogue dialogue;
  dialogue.question = {breeding_.next_asking(), asking.brief, room, hash_of(request), std::move(left_out)};
  dialogue.stream = asking.stream;
  const std::int64_t number = dialogue.question.number;
  breeding_.ask(asking.brief);
  record([&](Step& step) {
    step.ask(to_json(dialogue.question).dump(), asking.stream, dialogue.question.request_hash,
             to_record(request).dump(-1, ' ', false, json::error_handler_t::replace));
    tell(step, "asked", asking.brief.parents.front(),
         fmt::format("question {}: {} asks {}: {}", number, asking.brief.op, asking.brief.model,
                     asking.brief.direction));
  });
  dialogues_.emplace(number, std::move(dialogue));
  if (const std::string why = beyond_budget(request, kit_); !why.empty()) {
    ChatError error;
    error.kind = ChatError::Kind::too_large;
    error.message = why;
    return call_failed(number, error);
  }
  send(number, std::move(request));
}

void SearchLoop::reopen_questions() {
  if (reopened_ || !correspondence_) return;
  reopened_ = true;
  given_up_ = given_up_questions(journal_.record());
  if (breeding_.open_askings().empty()) return;
  for (AskedOn& asked : asked_questions(journal_.record())) {
    const std::int64_t number = asked.question.number;
    if (!breeding_.open_askings().contains(number)) continue;
    auto request = recorded_request(journal_.record(), asked.question.request_hash);
    if (!request) throw std::runtime_error(fmt::format("the record lacks what question {} asks", number));
    Dialogue dialogue;
    dialogue.question = std::move(asked.question);
    dialogue.stream = std::move(asked.stream);
    dialogues_.emplace(number, std::move(dialogue));
    send(number, *std::move(request));
  }
}

void SearchLoop::send(std::int64_t asking, ChatRequest request) {
  const Dialogue& dialogue = dialogues_.at(asking);
  const Brief& brief = dialogue.question.brief;
  request.call = call_name(brief, asking, dialogue.turns.size());
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::ask;
  job->asking = asking;
  job->order = ChatOrder{brief.op, brief.model, std::move(request)};
  ++calls_out_;
  pipeline_->ask(std::move(job));
}

void SearchLoop::answered(const JobPtr& job) {
  leave(*job);
  const std::int64_t number = job->asking;
  ServedResult& result = *job->answer;
  // What was not used stays open in the record: a resumed search asks it again, and pays only for what never
  // came.
  if (phase_ == Phase::leaving || (!result && result.error().kind == ChatError::Kind::cancelled)) return;
  exhausted_ = false;
  if (!result) return call_failed(number, result.error());
  Dialogue& dialogue = dialogues_.at(number);
  failed_calls_.erase(dialogue.question.brief.model);
  dialogue.exchanges.push_back(result->exchange);
  dialogue.model = result->model;
  dialogue.usd += result->usd;
  dialogue.tokens += result->answer.usage.total();
  // As the record has it, which holds no bytes that are not UTF-8: a replay must see the same.
  const json recorded = to_record(result->answer);
  dialogue.turns.push_back(
      {std::move(job->order->request),
       answer_from_record(json::parse(recorded.dump(-1, ' ', false, json::error_handler_t::replace)))});
  Move move = next_move(dialogue.question.brief,
                        edited_parent(journal_.record(), breeding_.archive(), dialogue.question.brief),
                        breeding_.task(), kit_, dialogue.turns);
  if (ChatRequest* next = std::get_if<ChatRequest>(&move)) return send(number, std::move(*next));
  if (const Proposal* proposal = std::get_if<Proposal>(&move)) return admit_answer(number, *proposal);
  give_up(number, std::get<GivenUp>(move).reason);
}

void SearchLoop::admit_answer(std::int64_t asking, const Proposal& proposal) {
  const auto node = dialogues_.extract(asking);
  const Dialogue& dialogue = node.mapped();
  const auto variant = make_variant(proposal.source, breeding_.task(), proposal.configuration);
  Individual child;
  introduce(child, proposal, variant);
  child.descent.model = dialogue.model;
  child.descent.usd = dialogue.usd;
  child.descent.tokens = dialogue.tokens;
  breeding_.admit(child, asking);
  record([&](Step& step) {
    step.propose(child, proposal.source, dialogue.stream, proposal_body_of(asking));
    for (const ExchangeId exchange : dialogue.exchanges) step.use_exchange(exchange, child.id);
    tell(step, "answered", child.id,
         fmt::format("question {}, by {}: {}", asking, dialogue.model, child.descent.note));
  });
  owed_.push_back(child.id);  // it goes before all that needs no model
}

void SearchLoop::give_up(std::int64_t asking, const std::string& reason) {
  const auto node = dialogues_.extract(asking);
  breeding_.give_up(asking, node.mapped().usd);
  ++given_up_;
  record([&](Step& step) {
    step.give_up(asking, node.mapped().usd, reason);
    tell(step, "unanswered", node.mapped().question.brief.parents.front(),
         fmt::format("question {} comes to nothing: {}", asking, reason));
  });
}

void SearchLoop::call_failed(std::int64_t asking, const ChatError& error) {
  constexpr int kPatience = 3;  // of calls that failed for good, each after its own attempts
  // The question stays open: what was answered may not be lost because the disk is full.
  if (error.kind == ChatError::Kind::not_recorded) return stop(Outcome::Stop::failed, error.message);
  const std::string model = dialogues_.at(asking).question.brief.model;
  const std::string words = fmt::format("{}: {}", name_of(error.kind), error.message);
  give_up(asking, words);
  // A cap of the run ends it; one of a model or an operator is that one's affair.
  if (error.kind == ChatError::Kind::over_budget && error.message.starts_with("the cap of the run,")) {
    cap_spent_ = error.message;
    return;
  }
  // A provider that is down comes back; meanwhile the service paces those who ask.
  if (is_passing(error.kind) || error.kind == ChatError::Kind::gave_up) return;
  const bool hopeless = error.kind == ChatError::Kind::over_budget || error.kind == ChatError::Kind::auth;
  if (!hopeless && ++failed_calls_[model] < kPatience) return;
  if (!closed_models_.emplace(model, words).second) return;
  record([&](Step& step) {
    tell(step, "trouble", 0, fmt::format("model {} is asked no more in this session: {}", model, words));
  });
}

void SearchLoop::record_models(Step& step) const {
  if (!correspondence_) return;
  const ChatServiceState state = correspondence_->state();
  std::vector<std::string> waits;
  for (const auto& [number, dialogue] : dialogues_) {
    const std::string& where = correspondence_->whereabouts(dialogue.question.brief.model);
    if (std::ranges::find(waits, where) == waits.end()) waits.push_back(where);
  }
  json shares = json::array();
  const std::vector<double> now = breeding_.shares();
  for (std::size_t i = 0; i < now.size(); ++i)
    shares.push_back({{"operator", breeding_.arms()[i].op->name()},
                      {"model", breeding_.arms()[i].model},
                      {"share", now[i]}});
  step.set("models", facts_of(state).dump());
  step.set("questions", json{{"open", dialogues_.size()},
                             {"nothing", given_up_},
                             {"in_flight", state.in_flight},
                             {"paused", state.paused},
                             {"waits_for", waits},
                             {"reserved_usd", state.reserved_usd},
                             {"usd", state.spent.usd},
                             {"tokens", state.spent.usage.total()},
                             {"shares", shares}}
                            .dump());
}

void SearchLoop::show_questions(Progress& progress) const {
  if (!correspondence_) return;
  const ChatServiceState state = correspondence_->state();
  QuestionsOut out;
  out.open = static_cast<int>(dialogues_.size());
  out.calls = state.in_flight;
  out.sent = state.spent.calls;
  out.usd = state.spent.usd;
  out.tokens = state.spent.usage.total();
  out.paused = state.paused;
  for (const auto& [number, dialogue] : dialogues_) {
    const std::string& where = correspondence_->whereabouts(dialogue.question.brief.model);
    if (out.waits_for.find(where) == std::string::npos)
      out.waits_for += (out.waits_for.empty() ? "" : ", ") + where;
  }
  progress.questions = std::move(out);
}

}  // namespace cultivar
