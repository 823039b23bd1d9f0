// SPDX-License-Identifier: Apache-2.0
#include "engine/search/model_dialogues.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "engine/config/model_settings.hpp"
#include "engine/search/search.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

std::set<std::string> models_in_use(const Config& config) {
  std::set<std::string> names;
  for (const OperatorShare& share : config.operators) names.insert(share.models.begin(), share.models.end());
  std::set<std::string> all = names;
  for (const ModelConfig& model : config.models)
    if (names.contains(model.name)) all.insert(model.fallbacks.begin(), model.fallbacks.end());
  return all;
}

json facts_of(const Spent& spent) {
  return {{"calls", spent.calls},
          {"failed", spent.failed},
          {"usd", spent.usd},
          {"uncertain_usd", spent.uncertain_usd},
          {"tokens",
           {{"input", spent.usage.input},
            {"cached", spent.usage.cached},
            {"cache_written", spent.usage.cache_written},
            {"output", spent.usage.output},
            {"reasoning", spent.usage.reasoning},
            {"total", spent.usage.total()},
            {"estimated", spent.usage.estimated}}}};
}

}  // namespace

std::string mail_of(const ModelConfig& model, const RunFolder& folder) {
  return model.folder.starts_with(kRunPlaceholder)
             ? folder.path().string() + model.folder.substr(kRunPlaceholder.size())
             : model.folder;
}

Expected<ChatModels> make_models(const Config& config, const RunFolder& folder) {
  ChatModels models;
  std::shared_ptr<HttpClient> client;
  for (const std::string& name : models_in_use(config))
    for (ModelConfig model : config.models) {
      if (model.name != name) continue;
      model.folder = mail_of(model, folder);
      if (provider_named(model.provider)->over_http && !client) client = std::make_shared<HttpClient>();
      auto made = make_chat_model(model, client, process_environment());
      if (!made) return failure(ErrorKind::missing, made.error().doing, made.error().message);
      models.emplace(name, std::move(*made));
    }
  return models;
}

Expected<std::unique_ptr<ModelDialogues>> ModelDialogues::open(const Config& config, ChatModels models,
                                                               const RunFolder& folder,
                                                               const RecordWriter& writer,
                                                               const Runtime& runtime) {
  std::unique_ptr<ModelDialogues> made(new ModelDialogues);
  ChatServiceOptions options;
  for (const ModelConfig& model : config.models) {
    options.key_variables.push_back(model.api_key_env);
    if (!models.contains(model.name)) continue;
    if (models.at(model.name)->knows_again()) made->keeps_letters_.insert(model.name);
    options.models.push_back(model);
    // A model that is here only as a fallback may name fallbacks that were not made.
    std::erase_if(options.models.back().fallbacks,
                  [&](const std::string& name) { return !models.contains(name); });
    made->whereabouts_[model.name] =
        model.provider == "mailbox"
            ? fmt::format("{} (mailbox: {}/requests)", model.name, mail_of(model, folder))
            : fmt::format("{} ({})", model.name, model.provider);
  }
  options.caps.run = config.budget.models;
  for (const OperatorShare& share : config.operators) options.caps.by_operator[share.name] = share.budget;
  options.seed = config.seed;
  options.event = [raw = made.get()](const std::string& text, bool of_this_machine) {
    const std::lock_guard lock(raw->mutex_);
    raw->news_.push_back({text, of_this_machine});
  };
  auto log = ExchangeStore::open(folder, writer);
  if (!log) return tl::make_unexpected(log.error());
  made->log_ = std::move(*log);
  auto service = ChatService::make(std::move(options), std::move(models), *made->log_);
  if (!service) return tl::make_unexpected(service.error());
  made->service_ = std::move(*service);
  if (runtime.chat) made->service_ = runtime.chat(std::move(made->service_));
  return made;
}

void ModelDialogues::ask(ChatOrder order, std::function<void(ServedResult)> done) {
  ServedListener listener;
  listener.done = std::move(done);
  service_->ask(std::move(order), stop_.get_token(), std::move(listener));
}

std::vector<ModelDialogues::News> ModelDialogues::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

json facts_of(const ChatServiceState& state) {
  static constexpr const char* kinds[] = {"ready", "held", "resting", "trying"};
  json models = json::object();
  for (const ModelState& model : state.models) {
    json one{{"state", kinds[static_cast<int>(model.kind)]},
             {"reason", model.reason},
             {"for_s", model.for_s},
             {"in_flight", model.in_flight},
             {"operators", json::object()}};
    Spent sum;
    for (const auto& [key, spent] : state.by_operator_and_model)
      if (key.second == model.name) {
        sum += spent;
        one["operators"][key.first] = facts_of(spent);
      }
    one.update(facts_of(sum));
    models[model.name] = std::move(one);
  }
  return models;
}

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
