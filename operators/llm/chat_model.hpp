// SPDX-License-Identifier: Apache-2.0
// The interface to a language model. Each provider is one file pair in this folder and one line in
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
  std::string_view text;  // valid during the callback
};

struct ChatListener {
  std::function<void(const ChatDelta&)> delta = {};  // optional: called for each part as it arrives
  std::function<void(ChatResult)> done;              // called exactly once, last
};

struct ChatTimeouts {
  double connect_s = 15.0;
  double first_byte_s = 180.0;  // from the start of the call to the first byte of the answer's body
  double idle_s = 90.0;         // the longest silence after it
  double total_s = 1200.0;
};

struct ChatBounds {
  std::size_t request_bytes = std::size_t{16} << 20;
  std::size_t answer_bytes = std::size_t{8} << 20;  // limit for the answer, in bytes received
};

// Thread-safe: any number of calls from any thread. Does not retry: ChatService implements the policy. The
// destructor cancels calls in flight; every `done` has been called when it returns.
class ChatModel {
 public:
  virtual ~ChatModel() = default;
  // Returns immediately. The listener is called on a thread of the model, one call at a time, never from
  // inside ask(); it must not block. After a stop request, `done` soon reports `cancelled`.
  virtual void ask(const ChatRequest&, std::stop_token, ChatListener) = 0;

  // True for models that recognize a request, by its call name and text, after the asking process was killed.
  // Sending it again is the same call: the first call's reservation is released.
  virtual bool knows_again() const { return false; }
  // Whether a usable answer already exists, so that asking costs nothing more.
  virtual bool has_answer(const ChatRequest&) const { return false; }
  // Removes what is left of a request that is not in flight and will not be asked again.
  virtual void withdraw(const ChatRequest&) const {}
};

}  // namespace cultivar
