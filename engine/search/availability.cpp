// SPDX-License-Identifier: Apache-2.0
#include "engine/search/availability.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {

namespace {

// One whose answers have no text needs other settings.
constexpr int kWithoutText = 3;

}  // namespace

Availability::Availability(Recorder& recorder, const Breeding& breeding)
    : recorder_(recorder), breeding_(breeding) {}

void Availability::restrict(AskingLimits& room) const {
  for (const auto& [model, why] : models_) room.closed.insert(model);
  for (const auto& [op, why] : operators_) room.closed_operators.insert(op);
}

std::string Availability::why_no_model_left() const {
  std::string reasons;
  for (const Portfolio::Arm& arm : breeding_.arms()) {
    if (arm.model.empty()) continue;
    const auto model = models_.find(arm.model);
    const auto op = operators_.find(arm.op->name());
    if (model == models_.end() && op == operators_.end()) return {};
    const auto& [who, why] = model != models_.end() ? *model : *op;
    const std::string words = fmt::format("{}: {}", who, why);
    if (reasons.find(words) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + words;
  }
  return reasons.empty() ? reasons : "no language model can be asked any more: " + reasons;
}

void Availability::close(Closed& closed, const std::string& name, const std::string& why) {
  if (!closed.emplace(name, why).second) return;
  const bool model = &closed == &models_;
  recorder_.trouble(0, fmt::format("{} {} {} in this session: {}", model ? "model" : "operator", name,
                                   model ? "is not asked again" : "asks no more questions", why));
}

void Availability::answered(const std::string& model, bool nothing) {
  failed_calls_.erase(model);
  if (nothing)
    ++nothing_[model];
  else
    nothing_.erase(model);
}

bool Availability::sends_nothing(const std::string& model) const {
  const auto row = nothing_.find(model);
  return row != nothing_.end() && row->second >= kWithoutText;
}

void Availability::question_repeated(const std::string& model, IndividualId twin) {
  // A duplicate costs no evaluation, so without this limit a model that always sends the same kernel would be
  // paid for it without end. More than the questions that are usually in flight, which know nothing of each
  // other.
  constexpr int kRepeated = 20;
  Fruitless& row = fruitless_[model];
  row.without_text = 0;
  if (++row.repeated >= kRepeated)
    close(
        models_, model,
        fmt::format("{} questions in a row led to kernels that were there before; the last one to #{} again",
                    row.repeated, twin));
}

void Availability::question_given_up(const std::string& model, const GivenUp& end) {
  // Questions that are given up do not count as evaluations, so without this limit a model that never
  // succeeds would be asked, and paid for, without end.
  constexpr int kFruitless = 30;
  Fruitless& row = fruitless_[model];
  ++row.questions;
  row.without_text = end.nothing_came ? row.without_text + 1 : 0;
  if (row.questions >= kFruitless || row.without_text >= kWithoutText)
    close(models_, model,
          fmt::format("{} questions in a row were given up; the last one: {}", row.questions, end.reason));
}

void Availability::failed(const Brief& brief, const ChatError& error) {
  constexpr int kPatience = 3;  // calls that failed, each after all its attempts
  const std::string &op = brief.op, &model = brief.model;
  const std::string words = fmt::format("{}: {}", name_of(error.kind), error.message);
  // An exhausted cap of the run ends the search; a cap of a model or an operator closes only that one.
  if (error.cap == CapScope::run) {
    cap_spent_ = error.message;
    return;
  }
  if (error.cap == CapScope::op) return close(operators_, op, words);
  // Temporary failures do not count: the chat service limits the calls until the provider answers again.
  if (is_passing(error.kind) || error.kind == ChatError::Kind::gave_up) return;
  // A recording may have no more answers for one operator but still some for others.
  const bool of_operator = error.kind == ChatError::Kind::no_recording &&
                           std::ranges::none_of(breeding_.arms(), [&brief](const Portfolio::Arm& arm) {
                             return arm.op->name() == brief.op && arm.model != brief.model;
                           });
  const bool hopeless = error.kind == ChatError::Kind::over_budget || error.kind == ChatError::Kind::auth;
  if (!hopeless && ++failed_calls_[of_operator ? model + "/" + op : model] < kPatience) return;
  if (of_operator) return close(operators_, op, words);
  close(models_, model, words);
}

}  // namespace cultivar
