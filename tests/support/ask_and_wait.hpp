// SPDX-License-Identifier: Apache-2.0
// For tests: asks and waits for the answer.
#pragma once

#include <future>
#include <memory>

#include "operators/llm/chat_service.hpp"

namespace cultivar {

inline ChatResult ask_and_wait(ChatModel& model, const ChatRequest& request, std::stop_token stop = {}) {
  auto answered = std::make_shared<std::promise<ChatResult>>();
  model.ask(request, std::move(stop),
            {.done = [answered](ChatResult r) { answered->set_value(std::move(r)); }});
  return answered->get_future().get();
}

inline ServedResult ask_and_wait(ChatService& service, ChatOrder order, std::stop_token stop = {}) {
  auto answered = std::make_shared<std::promise<ServedResult>>();
  service.ask(std::move(order), std::move(stop),
              {.done = [answered](ServedResult r) { answered->set_value(std::move(r)); }});
  return answered->get_future().get();
}

}  // namespace cultivar
