#include "operators/llm/chat_model.hpp"

#include <future>

namespace cultivar {

ChatResult ask_and_wait(ChatModel& model, const ChatRequest& request, std::stop_token stop) {
  auto answered = std::make_shared<std::promise<ChatResult>>();
  auto result = answered->get_future();
  ChatListener listener;
  listener.done = [answered](ChatResult r) { answered->set_value(std::move(r)); };
  model.ask(request, std::move(stop), std::move(listener));
  return result.get();
}

}  // namespace cultivar
