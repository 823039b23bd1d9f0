// SPDX-License-Identifier: Apache-2.0
#include "engine/search/questions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/config/config.hpp"
#include "engine/search/proposals.hpp"
#include "engine/search/search_bench.hpp"
#include "engine/store/record_view.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/similar_idea.hpp"
#include "engine/store/tool_results.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/agent/agent_dialogue.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/registry.hpp"
#include "operators/reply.hpp"
#include "population/individual.hpp"

namespace cultivar {

using nlohmann::json;

struct Questions::Dialogue {
  AskedQuestion question;
  std::string stream;
  std::vector<Turn> turns = {};
  std::vector<ExchangeId> exchanges = {};
  std::string model = {};  // the one that answered last
  double usd = 0.0;
  std::int64_t tokens = 0;
  double device_s = 0.0;                                          // that its tools used
  std::shared_ptr<AgentToolCalls> tool_calls = {};                // once a tool was called
  std::map<std::size_t, std::vector<ToolOutcome>> recorded = {};  // results of earlier sessions, by turn
  std::string doing = {};                   // the tool in flight; empty: a call to a model is in flight
  IndividualId incumbent = 0;               // when it was asked, in this session
  std::vector<IndividualId> measured = {};  // of its parents, at that time
  bool behind = false;                      // Breeding::left_behind_by its first parent, at that time
  std::stop_source withdrawal = {};         // of its call in flight
  std::string superseded = {};              // why it was withdrawn
  double sent_s = 0.0;                      // in Recorder::elapsed(), in this session
};

Questions::Questions(const Config& config, const RunFolder& folder, const PromptKit& kit,
                     ModelDialogues* models, Recorder& recorder, Breeding& breeding, ParsedSources& sources,
                     Pipeline& pipeline)
    : config_(config),
      folder_(folder),
      kit_(kit),
      models_(models),
      recorder_(recorder),
      breeding_(breeding),
      sources_(sources),
      pipeline_(pipeline),
      availability_(recorder, breeding) {}

Questions::~Questions() = default;

int Questions::callers(const Config& config, const ModelDialogues* models) {
  constexpr int kMost = 16;
  const auto uses_tools = [](const OperatorShare& share) { return operator_named(share.name).uses_tools(); };
  if (!models || std::ranges::none_of(config.operators, uses_tools)) return 0;
  return std::min(config.asking.in_flight, kMost);
}

std::optional<AskingLimits> Questions::room() const {
  if (!models_) return std::nullopt;
  AskingLimits room;
  availability_.restrict(room);
  room.questions = static_cast<int>(dialogues_.size()) < config_.asking.in_flight;
  return room;
}

Questions::Dialogue& Questions::dialogue_of(std::int64_t question) {
  return *dialogues_.at(question);
}

void Questions::ask(const Asking& asking, const AskingLimits& room) {
  const Record& record = recorder_.record();
  std::vector<std::string> left_out;
  ChatRequest request = opening_of(asking.brief, record, breeding_, record.facts(), kit_, left_out);
  const std::int64_t number = breeding_.next_asking();
  auto made = std::make_unique<Dialogue>(
      Dialogue{{number, asking.brief, room, hash_of(request), std::move(left_out)}, asking.stream});
  note_state(*made);
  const AskedQuestion& question = made->question;
  breeding_.ask(asking.brief);
  recorder_.step([&](Step& step) {
    step.ask(to_json(question).dump(), asking.stream, question.request_hash, json_text(to_record(request)));
    recorder_.tell(step, "asked", asking.brief.parents.front(),
                   fmt::format("question {}: {} asks {}: {}", number, asking.brief.op, asking.brief.model,
                               asking.brief.direction));
  });
  dialogues_.emplace(number, std::move(made));
  if (const std::string why = beyond_budget(request, kit_); !why.empty())
    return call_failed(number, {.kind = ChatError::Kind::too_large, .message = why});
  send(number, std::move(request));
}

void Questions::reopen() {
  if (reopened_ || !models_) return;
  reopened_ = true;
  const Record& record = recorder_.record();
  given_up_ = given_up_questions(record);
  for (const GivenUpQuestion& last : newest_given_up(record, 1)) why_given_up_ = last.reason;
  if (breeding_.open_askings().empty()) return;
  for (AskedOn& asked : asked_questions(record)) {
    const std::int64_t number = asked.question.number;
    if (!breeding_.open_askings().contains(number)) continue;
    auto request = recorded_request(record, asked.question.request_hash);
    if (!request)
      throw std::runtime_error(fmt::format("the record lacks the request of question {}", number));
    auto dialogue = std::make_unique<Dialogue>(Dialogue{std::move(asked.question), std::move(asked.stream)});
    dialogue->recorded = recorded_results(record, number);
    note_state(*dialogue);
    dialogues_.emplace(number, std::move(dialogue));
    send(number, *std::move(request));
  }
}

void Questions::tell_news() {
  if (!models_) return;
  const auto news = models_->news();
  if (news.empty()) return;
  recorder_.step([&](Step& step) {
    for (const auto& [text, of_this_machine] : news)
      recorder_.tell(step, of_this_machine ? "trouble" : "model", 0, text);
  });
}

void Questions::cancel() {
  tools_stop_.request_stop();
  if (models_) models_->cancel();
}

void Questions::note_state(Dialogue& dialogue) const {
  dialogue.incumbent = breeding_.incumbent();
  for (const IndividualId parent : dialogue.question.brief.parents)
    if (breeding_.archive().state(parent) == Member::State::measured) dialogue.measured.push_back(parent);
  dialogue.behind = breeding_.left_behind_by(dialogue.question.brief.parents.front()) != 0;
}

std::string Questions::superseded(const Dialogue& dialogue) const {
  const Archive& archive = breeding_.archive();
  const IndividualId best = breeding_.incumbent(), subject = dialogue.question.brief.parents.front();
  for (const IndividualId parent : dialogue.measured)
    if (archive.state(parent) != Member::State::measured)
      return fmt::format("#{} failed its confirmation", parent);
  if (const IndividualId faster = dialogue.behind ? 0 : breeding_.left_behind_by(subject))
    return fmt::format("#{}, which descends from #{}, was measured {:.1f}x as fast", faster, subject,
                       archive.fitness(faster) / archive.fitness(subject));
  // Other values of the same source leave the question as it is.
  if (best == dialogue.incumbent || archive.source_id(best) == archive.source_id(subject)) return {};
  if (subject == dialogue.incumbent)
    return fmt::format("#{} is the best now, and no longer #{}", best, subject);
  const auto line = chain_to_seed(best, [&](IndividualId id) { return archive.parents(id); });
  if (std::ranges::find(line, subject) != line.end())
    return fmt::format("#{}, which descends from #{}, is the best now", best, subject);
  return {};
}

void Questions::withdraw_superseded() {
  if (!models_) return;
  for (auto& [number, dialogue] : dialogues_) {
    const bool letter = models_->keeps_letters(dialogue->question.brief.model);
    if (!letter || !dialogue->turns.empty() || !dialogue->superseded.empty() ||
        recorder_.elapsed() - dialogue->sent_s < config_.asking.grace_s)
      continue;
    dialogue->superseded = superseded(*dialogue);
    if (!dialogue->superseded.empty()) dialogue->withdrawal.request_stop();
  }
}

void Questions::send(std::int64_t question, ChatRequest request) {
  Dialogue& dialogue = dialogue_of(question);
  dialogue.sent_s = recorder_.elapsed();
  const Brief& brief = dialogue.question.brief;
  request.call = call_name(brief, question, dialogue.turns.size());
  pipeline_.ask(std::make_shared<Job>(
      Ask{question, ChatOrder{brief.op, brief.model, std::move(request), dialogue.withdrawal.get_token()}},
      0));
}

Questions::Outcome Questions::answered(Ask& ask) {
  tell_news();  // what the service says of this call comes before what follows from it
  ServedResult& result = *ask.answer;
  // The question stays open in the record. A resumed search asks it again and pays only for answers that were
  // never received.
  if (!result && result.error().kind == ChatError::Kind::cancelled) {
    if (const std::string why = dialogue_of(ask.question).superseded; !why.empty()) {
      ++results_received_;
      give_up(ask.question, {why, NoResult::withdrawn});
    }
    return {};
  }
  ++results_received_;
  // The question stays open and the search stops, so that a full disk loses no answers.
  if (!result && result.error().kind == ChatError::Kind::not_recorded)
    return {.fatal = result.error().message};
  if (!result) {
    call_failed(ask.question, result.error());
    return {};
  }
  Dialogue& dialogue = dialogue_of(ask.question);
  availability_.answered(dialogue.question.brief.model, says_nothing(result->answer));
  dialogue.exchanges.push_back(result->exchange);
  dialogue.model = result->model;
  dialogue.usd += result->usd;
  dialogue.tokens += result->answer.usage.total();
  // Use the recorded form, in which bytes that are not UTF-8 are replaced: a replay must see the same text.
  const json recorded = to_record(result->answer);
  dialogue.turns.push_back(
      {std::move(ask.order.request), answer_from_record(json::parse(json_text(recorded)))});
  return {.proposed = follow(ask.question)};
}

IndividualId Questions::follow(std::int64_t number) {
  for (;;) {
    Dialogue& dialogue = dialogue_of(number);
    const Brief& brief = dialogue.question.brief;
    Move move = next_move(brief, edited_parent(sources_, breeding_.archive(), brief), breeding_.task(), kit_,
                          dialogue.turns);
    if (const Proposal* proposal = std::get_if<Proposal>(&move)) {
      if (tell_similar_idea(number, *proposal)) continue;
      return admit(number, *proposal);
    }
    if (ChatRequest* next = std::get_if<ChatRequest>(&move)) {
      if (says_nothing(dialogue.turns.back().answer) && availability_.sends_nothing(brief.model)) {
        const std::string model = brief.model;
        const GivenUp end = without_text(dialogue.turns.back());
        give_up(number, end);
        availability_.question_given_up(model, end);
        return 0;
      }
      send(number, std::move(*next));
      return 0;
    }
    if (const Directions* directions = std::get_if<Directions>(&move)) {
      take(number, *directions);
      return 0;
    }
    if (const GivenUp* given_up = std::get_if<GivenUp>(&move)) {
      const std::string model = brief.model;
      give_up(number, *given_up);
      availability_.question_given_up(model, *given_up);
      return 0;
    }
    ToolDue& due = std::get<ToolDue>(move);
    // A tool call of an earlier session is not run again; its result is in the record.
    auto& earlier = dialogue.recorded[dialogue.turns.size() - 1];
    const auto found = std::ranges::find(earlier, due.index, &ToolOutcome::index);
    if (found == earlier.end()) {
      call_tool(number, std::move(due));
      return 0;
    }
    tool_calls_of(dialogue).remember(*found);
    dialogue.device_s += found->device_s;
    dialogue.turns.back().results.push_back(std::move(*found));
    earlier.erase(found);
  }
}

AgentToolCalls& Questions::tool_calls_of(Dialogue& dialogue) {
  if (dialogue.tool_calls) return *dialogue.tool_calls;
  const RunFacts facts = recorder_.record().facts();
  const json devices = facts.environment.value("devices", json::array());
  SearchBench::Where where{.run_folder = folder_.path(),
                           .task = breeding_.task(),
                           .workloads = breeding_.workloads(),
                           .facts = breeding_.facts(),
                           .kit = kit_,
                           .target = config_.target,
                           .device = devices.empty() ? "" : devices.front().value("description", ""),
                           .sampling = sampling_of(config_.evaluation),
                           .parent = dialogue.question.brief.parents.front(),
                           .ceilings = devices.empty() ? Ceilings{} : ceilings_in(devices.front()),
                           .question = dialogue.question.number};
  dialogue.tool_calls = std::make_shared<AgentToolCalls>(std::move(where), pipeline_, kit_.options().tools);
  return *dialogue.tool_calls;
}

void Questions::call_tool(std::int64_t question, ToolDue due) {
  Dialogue& dialogue = dialogue_of(question);
  (void)tool_calls_of(dialogue);
  dialogue.doing = due.call.name;
  pipeline_.call(
      std::make_shared<Job>(Call{question, dialogue.tool_calls, std::move(due), tools_stop_.get_token()}, 0));
}

Questions::Outcome Questions::called(const Job& job, Call& call) {
  if (job.trouble) throw std::runtime_error("a tool of an agent failed: " + job.trouble->message);
  if (!call.outcome) return {};  // interrupted; a resumed search runs it again
  ++results_received_;
  Dialogue& dialogue = dialogue_of(call.question);
  dialogue.doing.clear();
  // Use the recorded form, in which bytes that are not UTF-8 are replaced: a resumed search must see the same
  // text.
  ToolOutcome outcome = outcome_of_body(to_body(*call.outcome));
  const std::size_t turn = dialogue.turns.size() - 1;
  recorder_.step([&](Step& step) {
    step.tool_result(call.question, turn, outcome);
    recorder_.tell(step, "tool", dialogue.question.brief.parents.front(),
                   fmt::format("question {}, step {}: {}{}: {}", call.question, turn + 1, outcome.tool,
                               outcome.failed ? " (failed)" : "", one_line_of(outcome.text, 120)));
  });
  dialogue.device_s += outcome.device_s;
  dialogue.turns.back().results.push_back(std::move(outcome));
  return {.proposed = follow(call.question)};
}

bool Questions::tell_similar_idea(std::int64_t question, const Proposal& proposal) {
  if (!kit_.options().ideas) return false;
  Dialogue& dialogue = dialogue_of(question);
  const Brief& brief = dialogue.question.brief;
  const auto told = [](const Turn& turn) { return turn.similar_idea() != nullptr; };
  if (std::ranges::any_of(dialogue.turns, told)) return false;
  const std::size_t turn = dialogue.turns.size() - 1;
  const auto& earlier = dialogue.recorded[turn];  // of an earlier session
  const auto found = std::ranges::find(earlier, kSimilarIdea, &ToolOutcome::tool);
  auto outcome = found != earlier.end() ? std::optional(*found)
                                        : similar_idea(recorder_.record(), breeding_, kit_, proposal);
  if (!outcome) return false;
  if (found == earlier.end()) {
    outcome = outcome_of_body(to_body(*outcome));
    outcome->index = kCallsAnAnswer;  // after those of the answer's calls
    recorder_.step([&](Step& step) {
      step.tool_result(question, turn, *outcome);
      recorder_.tell(
          step, "repeated", brief.parents.front(),
          fmt::format("question {}: its proposal is nearly the same as an earlier one; the model is told "
                      "what that one gave",
                      question));
    });
  }
  dialogue.turns.back().results.push_back(*std::move(outcome));
  return true;
}

IndividualId Questions::admit(std::int64_t question, const Proposal& proposal) {
  const auto node = dialogues_.extract(question);
  const Dialogue& dialogue = *node.mapped();
  if (proposal.variant) sources_.keep(proposal.variant);
  const ParsedVariant variant = sources_.variant(proposal.source, proposal.configuration);
  const auto twin = variant ? breeding_.twin_by_variant((*variant)->id) : std::nullopt;
  if (twin)
    availability_.question_repeated(dialogue.question.brief.model, *twin);
  else
    availability_.question_succeeded(dialogue.question.brief.model);
  Individual child = introduced(breeding_, proposal, variant);
  child.descent.model = dialogue.model;
  child.descent.usd = dialogue.usd;
  child.descent.tokens = dialogue.tokens;
  breeding_.admit(child, question, dialogue.device_s);
  recorder_.step([&](Step& step) {
    step.propose(child, proposal.source, dialogue.stream, proposal_body_of(question, dialogue.device_s));
    for (const ExchangeId exchange : dialogue.exchanges) step.use_exchange(exchange, child.id);
    recorder_.tell(step, "answered", child.id,
                   fmt::format("question {}, by {}: {}", question, dialogue.model, child.descent.note));
  });
  return child.id;
}

void Questions::take(std::int64_t question, const Directions& directions) {
  const auto node = dialogues_.extract(question);
  const Dialogue& dialogue = *node.mapped();
  availability_.question_succeeded(dialogue.question.brief.model);
  breeding_.direct(question, directions);
  recorder_.step([&](Step& step) {
    step.direct(question, directions);
    const bool informs = operator_named(dialogue.question.brief.op).informs;
    if (!informs) step.set("plan", json_text({{"question", question}, {"strategies", directions.words}}));
    recorder_.tell(
        step, informs ? "learned" : "directed", dialogue.question.brief.parents.front(),
        fmt::format("question {}, by {}: {}", question, dialogue.model, fmt::join(directions.words, "; ")));
  });
}

void Questions::give_up(std::int64_t question, const GivenUp& end) {
  const auto node = dialogues_.extract(question);
  const Dialogue& dialogue = *node.mapped();
  breeding_.give_up(question, dialogue.usd, dialogue.device_s);
  ++given_up_;
  why_given_up_ = end.reason;
  recorder_.step([&](Step& step) {
    step.give_up(question, dialogue.usd, dialogue.device_s, end);
    const std::string_view how = end.why == NoResult::fruitless ? "given up" : name_of(end.why);
    recorder_.tell(step, "unanswered", dialogue.question.brief.parents.front(),
                   fmt::format("question {} is {}: {}", question, how, end.reason));
  });
}

void Questions::call_failed(std::int64_t question, const ChatError& error) {
  const Brief brief = dialogue_of(question).question.brief;
  give_up(question, {fmt::format("{}: {}", name_of(error.kind), error.message)});
  availability_.failed(brief, error);
}

std::vector<std::string> Questions::waits_for() const {
  std::vector<std::string> waits;
  for (const auto& [number, dialogue] : dialogues_) {
    if (!dialogue->doing.empty()) continue;  // a tool call is in flight
    const std::string& where = models_->whereabouts(dialogue->question.brief.model);
    if (std::ranges::find(waits, where) == waits.end()) waits.push_back(where);
  }
  return waits;
}

int Questions::letters_out() const {
  return static_cast<int>(std::ranges::count_if(dialogues_, [&](const auto& each) {
    return each.second->doing.empty() && models_->keeps_letters(each.second->question.brief.model);
  }));
}

int Questions::calls_out() const {
  return static_cast<int>(dialogues_.size()) - letters_out();
}

void Questions::write_state(Step& step) const {
  if (!models_) return;
  const ChatServiceState state = models_->state();
  json agents = json::array();
  for (const auto& [number, dialogue] : dialogues_)
    if (operator_named(dialogue->question.brief.op).uses_tools())
      agents.push_back({{"question", number},
                        {"step", dialogue->turns.size() + (dialogue->doing.empty() ? 1 : 0)},
                        {"tool", dialogue->doing},
                        {"device_s", dialogue->device_s}});
  json shares = json::array();
  const std::vector<double> now = breeding_.shares();
  for (std::size_t i = 0; i < now.size(); ++i)
    shares.push_back({{"operator", breeding_.arms()[i].op->name()},
                      {"model", breeding_.arms()[i].model},
                      {"share", now[i]}});
  step.set("models", facts_of(state).dump());
  step.set("questions",
           json{{"open", breeding_.open_askings().size()},  // also those that are not reopened yet
                {"nothing", given_up_},
                {"why_nothing", why_given_up_},
                {"in_flight", state.in_flight},
                {"paused", state.paused},
                {"waits_for", waits_for()},
                {"agents", agents},
                {"reserved_usd", state.reserved_usd},
                {"usd", state.spent.usd},
                {"tokens", state.spent.usage.total()},
                {"shares", shares}}
               .dump());
}

void Questions::show(Progress& progress) const {
  if (!models_) return;
  const ChatServiceState state = models_->state();
  QuestionsOut out;
  out.open = static_cast<int>(dialogues_.size());
  out.calls = state.in_flight;
  out.sent = state.spent.calls;
  out.usd = state.spent.usd;
  out.tokens = state.spent.usage.total();
  out.paused = state.paused;
  out.tools = static_cast<int>(
      std::ranges::count_if(dialogues_, [](const auto& each) { return !each.second->doing.empty(); }));
  for (const std::string& where : waits_for()) out.waits_for += (out.waits_for.empty() ? "" : ", ") + where;
  progress.questions = std::move(out);
}

}  // namespace cultivar
