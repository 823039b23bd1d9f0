// SPDX-License-Identifier: Apache-2.0
#include "engine/store/interventions.hpp"

#include <fmt/format.h>
#include <stdexcept>

#include "engine/config/duration.hpp"
#include "engine/store/askings.hpp"
#include "evaluators/timing/roofline.hpp"

namespace cultivar {

using nlohmann::json;

json to_json(const Intervention& i) {
  return {{"number", i.number}, {"trigger", name_of(i.trigger)}, {"answer", name_of(i.answer)},
          {"seen", i.seen},     {"subject", i.subject},          {"ancestor", i.ancestor}};
}

json to_json(const InterventionResult& r) {
  return {{"number", r.number},
          {"evaluated", r.evaluated},
          {"measured", r.measured},
          {"promoted", r.promoted},
          {"best_gain", r.best_gain}};
}

Intervention intervention_in(const std::string& body) {
  const json j = json::parse(body);
  const auto trigger = trigger_named(j.at("trigger").get<std::string>());
  const auto answer = answer_named(j.at("answer").get<std::string>());
  if (!trigger || !answer)
    throw std::runtime_error(fmt::format("the record has an unknown intervention: {} for {}",
                                         j.at("answer").dump(), j.at("trigger").dump()));
  Intervention i;
  i.trigger = *trigger;
  i.answer = *answer;
  j.at("number").get_to(i.number);
  j.at("seen").get_to(i.seen);
  j.at("subject").get_to(i.subject);
  j.at("ancestor").get_to(i.ancestor);
  return i;
}

InterventionResult result_in(const std::string& body) {
  const json j = json::parse(body);
  InterventionResult r;
  j.at("number").get_to(r.number);
  j.at("evaluated").get_to(r.evaluated);
  j.at("measured").get_to(r.measured);
  j.at("promoted").get_to(r.promoted);
  j.at("best_gain").get_to(r.best_gain);
  return r;
}

namespace {

std::string reason_of(const Intervention& i) {
  switch (i.trigger) {
    case Trigger::evaluations:
      return fmt::format("no promotion during {:.0f} evaluations", i.seen);
    case Trigger::device_time:
      return fmt::format("no promotion during {} of device time", duration(i.seen));
    case Trigger::cost:
      return fmt::format("no promotion for {:.2f} USD", i.seen);
    case Trigger::failures:
      return fmt::format("{:.0f} rejections in a row ({})", i.seen, i.subject);
    case Trigger::repetition:
      return fmt::format("{:.0f} of the latest proposals and questions repeated earlier ones", i.seen);
    case Trigger::unprofitable:
      return fmt::format("{:.0f} proposals of {} without a gain", i.seen, i.subject);
    case Trigger::roofline:
      return fmt::format("the best is at {} of the roofline", share_in_words(i.seen));
  }
  return {};
}

std::string change_of(const Intervention& i) {
  switch (i.answer) {
    case Answer::direction:
      return "other directions, more questions";
    case Answer::parent:
      return "other parents";
    case Answer::ancestor:
      return fmt::format("a new line from its ancestor #{}", i.ancestor);
    case Answer::tuning:
      return "more tuning, of other sources";
    case Answer::plan:
      return "a model is asked for strategies";
    case Answer::reset:
      return "an island begins anew and is bred from";
  }
  return {};
}

}  // namespace

std::string text_of(const Intervention& i) {
  return fmt::format("intervention {}: {}: {}", i.number, reason_of(i), change_of(i));
}

std::string text_of(const InterventionResult& r) {
  return fmt::format(
      "intervention {} ended: {} evaluated, {} measured, {}", r.number, r.evaluated, r.measured,
      r.best_gain > 0.0 ? fmt::format("the best {:+.1f} % over its parent", 100.0 * r.best_gain)
                        : "none was faster than its parent");
}

json supervisor_status(const Intervention& current) {
  json shown = to_json(current);
  shown["text"] = text_of(current);
  return {{"interventions", current.number}, {"current", shown}, {"last", nullptr}};
}

json supervisor_status(const Intervention& last, const InterventionResult& result) {
  json shown = to_json(last);
  shown["result"] = to_json(result);
  shown["text"] = text_of(last) + "; " + text_of(result);
  return {{"interventions", last.number}, {"current", nullptr}, {"last", shown}};
}

std::vector<InterventionRow> interventions_of(const Record& record) {
  std::vector<InterventionRow> rows;
  std::map<std::int64_t, std::size_t> asked;     // rows, by question
  std::map<IndividualId, std::size_t> proposed;  // rows, by individual
  bool active = false;
  record.each_decision([&](const DecisionRow& decision) {
    switch (decision.kind) {
      case DecisionKind::intervene:
        rows.push_back({intervention_in(decision.body), decision.elapsed_s, {}, {}});
        active = true;
        break;
      case DecisionKind::outcome:
        rows.back().result = result_in(decision.body);
        active = false;
        break;
      case DecisionKind::ask:
        if (active) asked[asked_question(decision.body).number] = rows.size() - 1;
        break;
      case DecisionKind::propose: {
        if (!active && asked.empty()) break;
        const std::int64_t asking = proposal_body(decision.body).asking;
        if (const auto found = asked.find(asking); found != asked.end())
          proposed[decision.individual] = found->second;
        else if (active && asking == 0 && !decision.stream.empty())  // seeds and submissions draw from none
          proposed[decision.individual] = rows.size() - 1;
        break;
      }
      case DecisionKind::promote:
        if (const auto found = proposed.find(decision.individual); found != proposed.end())
          rows[found->second].promoted.push_back(decision.individual);
        break;
      default:
        break;
    }
  });
  return rows;
}

}  // namespace cultivar
