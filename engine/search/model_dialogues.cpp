// SPDX-License-Identifier: Apache-2.0
#include "engine/search/model_dialogues.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

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

}  // namespace cultivar
