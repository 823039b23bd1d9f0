// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/chat_service.hpp"

#include <chrono>

#include "evaluators/system/clock.hpp"
#include "operators/llm/service_core.hpp"

namespace cultivar {

ChatService::ChatService(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Expected<std::unique_ptr<ChatService>> ChatService::make(
    ChatServiceOptions options, std::map<std::string, std::unique_ptr<ChatModel>> models, ExchangeLog& log) {
  if (!options.clock) options.clock = [] { return in_seconds(Clock::now().time_since_epoch()); };
  for (const ModelConfig& model : options.models)
    if (!options.caps.by_model.contains(model.name)) options.caps.by_model[model.name] = model.cap;
  auto spent = log.spent();
  if (!spent) return tl::make_unexpected(spent.error());
  auto core = std::make_unique<Core>(std::move(options), std::move(models), log);
  for (const auto& [key, sum] : *spent) core->ledger.add(key.first, key.second, sum);
  core->publish();
  core->thread = std::thread([raw = core.get()] { raw->run(); });
  return std::unique_ptr<ChatService>(new ChatService(std::move(core)));
}

ChatService::~ChatService() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->closing = true;
  }
  core_->changed.notify_all();
  core_->thread.join();
}

void ChatService::ask(ChatOrder order, std::stop_token stop, ServedListener listener) {
  std::list<ServedCall> one(1);
  ServedCall& call = one.front();
  call.order = std::move(order);
  call.hash = hash_of(call.order.request);
  call.listener = std::move(listener);
  const auto end = [source = call.stop, core = core_.get()]() mutable {
    source.request_stop();
    {
      const std::lock_guard lock(core->mutex);
      core->woken = true;
    }
    core->changed.notify_all();
  };
  call.on_stop.emplace(std::move(stop), end);
  call.on_withdrawal.emplace(call.order.withdrawn, end);
  {
    const std::lock_guard lock(core_->mutex);
    core_->arriving.splice(core_->arriving.end(), one);
  }
  core_->changed.notify_all();
}

ChatServiceState ChatService::state() const {
  const std::lock_guard lock(core_->mutex);
  return core_->shown;
}

}  // namespace cultivar
