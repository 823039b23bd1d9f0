// A language model, whoever serves it. One file pair in this folder for each provider, and one line in
// providers.cpp.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include "operators/llm/chat.hpp"

namespace cultivar {

struct ChatDelta {
  enum class Kind { text, reasoning, tool_arguments } kind = Kind::text;
  std::string_view text;  // lives as long as the call that brings it
};

struct ChatListener {
  std::function<void(const ChatDelta&)> delta = {};  // optional: what arrives, as it arrives
  std::function<void(ChatResult)> done;              // exactly once, and nothing after it
};

struct ChatTimeouts {
  double connect_s = 15.0;
  double first_byte_s = 180.0;  // from the start of the call to the first byte of the answer's body
  double idle_s = 90.0;         // the longest silence after it
  double total_s = 1200.0;
};

struct ChatBounds {
  std::size_t request_bytes = std::size_t{16} << 20;
  std::size_t answer_bytes = std::size_t{8} << 20;  // as it comes over the wire
};

// Thread-safe: any number of calls from any thread. Nothing is tried twice here: policy is ChatService's.
// The destructor cancels what is in flight; every `done` has been called when it returns.
class ChatModel {
 public:
  virtual ~ChatModel() = default;
  // Returns at once. The listener is called on a thread of the model, one call at a time, never from inside
  // ask(); it must not block. When the token is stopped, `done` brings `cancelled` within moments.
  virtual void ask(const ChatRequest&, std::stop_token, ChatListener) = 0;

  // For models that know a request again, by its call and its text, after the process that asked it was
  // killed. Asked again it is one and the same call: what the first asking had reserved is free.
  virtual bool knows_again() const { return false; }
  // An answer that can be used lies there already: asking for it costs nothing that was not paid.
  virtual bool has_answer(const ChatRequest&) const { return false; }
  // A request that is not out, and that nobody will ask again: whatever an earlier process left of it goes.
  virtual void withdraw(const ChatRequest&) const {}
};

// For those who have a thread to wait on.
ChatResult ask_and_wait(ChatModel&, const ChatRequest&, std::stop_token = {});

}  // namespace cultivar
