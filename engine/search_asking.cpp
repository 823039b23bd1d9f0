// Language models: what goes out to them from the steward, and what comes of their answers.
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/chronicle.hpp"
#include "engine/search_loop.hpp"
#include "engine/store/tool_results.hpp"

namespace cultivar {

using nlohmann::json;

Room SearchLoop::room() const {
  Room room;
  if (!correspondence_) return room;
  for (const auto& [model, why] : closed_models_) room.closed.insert(model);
  for (const auto& [op, why] : closed_operators_) room.closed_operators.insert(op);
  room.questions = static_cast<int>(dialogues_.size()) < config_.asking.in_flight;
  return room;
}

std::string SearchLoop::nobody_to_ask() const {
  std::string reasons;
  for (const Portfolio::Arm& arm : breeding_.arms()) {
    if (arm.model.empty()) continue;
    const auto model = closed_models_.find(arm.model);
    const auto op = closed_operators_.find(arm.op->name());
    if (model == closed_models_.end() && op == closed_operators_.end()) return {};
    const auto& [who, why] = model != closed_models_.end() ? *model : *op;
    const std::string words = fmt::format("{}: {}", who, why);
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
    dialogue.recorded = recorded_results(journal_.record(), number);
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
  follow(number);
}

void SearchLoop::follow(std::int64_t number) {
  for (;;) {
    Dialogue& dialogue = dialogues_.at(number);
    Move move = next_move(dialogue.question.brief,
                          edited_parent(journal_.record(), breeding_.archive(), dialogue.question.brief),
                          breeding_.task(), kit_, dialogue.turns);
    if (ChatRequest* next = std::get_if<ChatRequest>(&move)) return send(number, std::move(*next));
    if (const Proposal* proposal = std::get_if<Proposal>(&move)) return admit_answer(number, *proposal);
    if (const GivenUp* given_up = std::get_if<GivenUp>(&move))
      return came_to_nothing(number, given_up->reason);
    ToolDue& due = std::get<ToolDue>(move);
    // Run in an earlier session: what it gave stands in the record.
    auto& earlier = dialogue.recorded[dialogue.turns.size() - 1];
    const auto found = std::ranges::find(earlier, due.index, &ToolOutcome::index);
    if (found == earlier.end()) return call_tool(number, std::move(due));
    desk_of(dialogue).remember(*found);
    dialogue.device_s += found->device_s;
    dialogue.turns.back().results.push_back(std::move(*found));
    earlier.erase(found);
  }
}

AgentDesk& SearchLoop::desk_of(Dialogue& dialogue) {
  if (dialogue.desk) return *dialogue.desk;
  const RunFacts facts = journal_.record().facts();
  const json devices = facts.environment.value("devices", json::array());
  SearchBench::Where where{.run_folder = folder_.path(),
                           .task = breeding_.task(),
                           .workloads = breeding_.workloads(),
                           .facts = breeding_.facts(),
                           .kit = kit_,
                           .target = config_.target,
                           .device = devices.empty() ? "" : devices.front().value("description", ""),
                           .sampling = sampling_of(config_.evaluation),
                           .parent = dialogue.question.brief.parents.front()};
  dialogue.desk = std::make_shared<AgentDesk>(std::move(where), *pipeline_, kit_.options().agent);
  return *dialogue.desk;
}

void SearchLoop::call_tool(std::int64_t asking, ToolDue due) {
  Dialogue& dialogue = dialogues_.at(asking);
  (void)desk_of(dialogue);
  dialogue.doing = due.call.name;
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::call;
  job->asking = asking;
  job->work = [desk = dialogue.desk, due = std::move(due), stop = tools_stop_.get_token()](Job& own) {
    own.outcome = desk->run(due, stop);
  };
  ++calls_out_;
  pipeline_->call(std::move(job));
}

void SearchLoop::called_tool(const JobPtr& job) {
  leave(*job);
  job->work = {};
  // Interrupted: a resumed search runs it again.
  if (phase_ == Phase::leaving || (!job->outcome && !job->trouble)) return;
  if (job->trouble) throw std::runtime_error("a tool of an agent: " + job->trouble->message);
  exhausted_ = false;
  Dialogue& dialogue = dialogues_.at(job->asking);
  dialogue.doing.clear();
  // As the record has it, which holds no bytes that are not UTF-8: a resumed search must see the same.
  ToolOutcome outcome = outcome_of_body(to_body(*job->outcome));
  const std::size_t turn = dialogue.turns.size() - 1;
  record([&](Step& step) {
    step.tool_result(job->asking, turn, outcome);
    tell(step, "tool", dialogue.question.brief.parents.front(),
         fmt::format("question {}, step {}: {}{}: {}", job->asking, turn + 1, outcome.tool,
                     outcome.failed ? " (could not be done)" : "", one_line_of(outcome.text, 120)));
  });
  dialogue.device_s += outcome.device_s;
  dialogue.turns.back().results.push_back(std::move(outcome));
  follow(job->asking);
}

void SearchLoop::admit_answer(std::int64_t asking, const Proposal& proposal) {
  const auto node = dialogues_.extract(asking);
  const Dialogue& dialogue = node.mapped();
  fruitless_.erase(dialogue.question.brief.model);
  const auto variant = make_variant(proposal.source, breeding_.task(), proposal.configuration);
  Individual child;
  introduce(child, proposal, variant);
  child.descent.model = dialogue.model;
  child.descent.usd = dialogue.usd;
  child.descent.tokens = dialogue.tokens;
  breeding_.admit(child, asking, dialogue.device_s);
  record([&](Step& step) {
    step.propose(child, proposal.source, dialogue.stream, proposal_body_of(asking, dialogue.device_s));
    for (const ExchangeId exchange : dialogue.exchanges) step.use_exchange(exchange, child.id);
    tell(step, "answered", child.id,
         fmt::format("question {}, by {}: {}", asking, dialogue.model, child.descent.note));
  });
  owed_.push_back(child.id);  // it goes before all that needs no model
}

void SearchLoop::give_up(std::int64_t asking, const std::string& reason) {
  const auto node = dialogues_.extract(asking);
  breeding_.give_up(asking, node.mapped().usd, node.mapped().device_s);
  ++given_up_;
  record([&](Step& step) {
    step.give_up(asking, node.mapped().usd, node.mapped().device_s, reason);
    tell(step, "unanswered", node.mapped().question.brief.parents.front(),
         fmt::format("question {} comes to nothing: {}", asking, reason));
  });
}

void SearchLoop::close(std::map<std::string, std::string>& who, const std::string& name,
                       const std::string& why) {
  if (!who.emplace(name, why).second) return;
  record([&](Step& step) {
    tell(step, "trouble", 0,
         fmt::format("{} {} in this session: {}", &who == &closed_models_ ? "model" : "operator",
                     name + (&who == &closed_models_ ? " is asked no more" : " asks no more"), why));
  });
}

void SearchLoop::came_to_nothing(std::int64_t asking, const std::string& reason) {
  // A model that cannot do it would be asked, and paid, without end: nothing of it counts as an evaluation.
  constexpr int kFruitless = 30;
  const std::string model = dialogues_.at(asking).question.brief.model;
  give_up(asking, reason);
  if (++fruitless_[model] >= kFruitless)
    close(closed_models_, model,
          fmt::format("{} questions in a row came to nothing; the last one: {}", kFruitless, reason));
}

void SearchLoop::call_failed(std::int64_t asking, const ChatError& error) {
  constexpr int kPatience = 3;  // of calls that failed for good, each after its own attempts
  // The question stays open: what was answered may not be lost because the disk is full.
  if (error.kind == ChatError::Kind::not_recorded) return stop(Outcome::Stop::failed, error.message);
  const auto [op, model] = [&] {
    const Brief& brief = dialogues_.at(asking).question.brief;
    return std::pair(brief.op, brief.model);
  }();
  const std::string words = fmt::format("{}: {}", name_of(error.kind), error.message);
  give_up(asking, words);
  // A cap of the run ends it; one of a model or an operator is that one's affair.
  if (error.kind == ChatError::Kind::over_budget && error.message.starts_with("the cap of the run,")) {
    cap_spent_ = error.message;
    return;
  }
  if (error.kind == ChatError::Kind::over_budget && error.message.starts_with("the cap of operator"))
    return close(closed_operators_, op, words);
  // A provider that is down comes back; meanwhile the service paces those who ask.
  if (is_passing(error.kind) || error.kind == ChatError::Kind::gave_up) return;
  // A recording may have no answers left for one operator and some for the others.
  const bool of_operator =
      error.kind == ChatError::Kind::no_recording &&
      std::ranges::none_of(breeding_.arms(), [&op = op, &model = model](const Portfolio::Arm& arm) {
        return arm.op->name() == op && arm.model != model;
      });
  const bool hopeless = error.kind == ChatError::Kind::over_budget || error.kind == ChatError::Kind::auth;
  if (!hopeless && ++failed_calls_[of_operator ? model + "/" + op : model] < kPatience) return;
  if (of_operator) return close(closed_operators_, op, words);
  close(closed_models_, model, words);
}

void SearchLoop::record_models(Step& step) const {
  if (!correspondence_) return;
  const ChatServiceState state = correspondence_->state();
  std::vector<std::string> waits;
  json agents = json::array();
  for (const auto& [number, dialogue] : dialogues_) {
    if (dialogue.question.brief.op == "agent")
      agents.push_back({{"question", number},
                        {"step", dialogue.turns.size() + (dialogue.doing.empty() ? 1 : 0)},
                        {"tool", dialogue.doing},
                        {"device_s", dialogue.device_s}});
    if (!dialogue.doing.empty()) continue;  // its tools are at work
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
  step.set("questions", json{{"open", breeding_.open_askings().size()},  // reopened or not
                             {"nothing", given_up_},
                             {"in_flight", state.in_flight},
                             {"paused", state.paused},
                             {"waits_for", waits},
                             {"agents", agents},
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
    if (!dialogue.doing.empty()) continue;  // its tools are at work
    const std::string& where = correspondence_->whereabouts(dialogue.question.brief.model);
    if (out.waits_for.find(where) == std::string::npos)
      out.waits_for += (out.waits_for.empty() ? "" : ", ") + where;
  }
  progress.questions = std::move(out);
}

}  // namespace cultivar
