// SPDX-License-Identifier: Apache-2.0
// A chat model behind an HTTP protocol with server-sent events. A ChatProtocol implements what differs
// between protocols: pure translation, without network access.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/chat_model.hpp"
#include "operators/llm/http_client.hpp"
#include "operators/llm/secret.hpp"
#include "operators/llm/sse.hpp"

namespace cultivar {

// Assembles one streamed answer. Used by one thread. It reads what it can: only text that would have a hole,
// or no end, is no answer.
class AnswerReader {
 public:
  explicit AnswerReader(std::function<void(const ChatDelta&)> delta) : delta_(std::move(delta)) {}
  virtual ~AnswerReader() = default;
  // The data of one event. An error ends the call. May throw if the data does not follow the protocol
  // (nlohmann's exceptions, an invalid index); that becomes the error `garbage`. What is said of usage is
  // taken first, because it counts in any case.
  virtual std::optional<ChatError> event(const SseEvent&, const nlohmann::json& data) = 0;
  // A complete answer instead of a stream, from servers that do not stream.
  virtual std::optional<ChatError> whole(const nlohmann::json& body) = 0;
  // The server says that the stream is over ([DONE]): an answer so far is complete, also without the
  // protocol's own end.
  std::optional<ChatError> over();
  ChatAnswer take();
  bool complete() const { return finished_; }  // the protocol's end marker was received
  const Usage* usage() const { return usage_ ? &*usage_ : nullptr; }  // nullptr if not reported
  std::optional<double> usd() const { return answer_.usd; }
  std::size_t received_bytes() const {
    return received_;
  }  // bytes of text, reasoning and tool arguments so far

 protected:
  virtual std::optional<ChatError> ended() = 0;  // no more will come; sets `finished_`
  virtual void finish(ChatAnswer&) {}            // before it is taken
  void tell(ChatDelta::Kind, const std::string& text);
  // The model, or a filter, declines; empty words: a filter.
  ChatError refusal(const std::string& words) const;
  // As OpenAI's protocols count, both under names of their own: "prompt_tokens", "completion_tokens".
  // Repeated figures are of the call so far, so the highest count.
  void take_openai_usage(const nlohmann::json& object, const std::string& input, const std::string& output);

  ChatAnswer answer_;
  std::optional<Usage> usage_;
  std::size_t received_ = 0;
  bool finished_ = false;

 private:
  std::function<void(const ChatDelta&)> delta_;
  std::string reasoning_;
};

// The field of an object if it is a text, otherwise empty.
std::string text_of(const nlohmann::json& object, const char* key);
// The type of an event, which is repeated in its data.
std::string type_of(const SseEvent&, const nlohmann::json& data);
// The field of an object if it is a whole number, otherwise `otherwise`.
std::int64_t index_of(const nlohmann::json& object, const char* key, std::int64_t otherwise);

std::string joined_system(const ChatRequest&);  // its parts as one text
// What a protocol calls the choice of tools, by its words for automatic, required and none.
const char* choice_of(const ChatRequest&, const std::array<const char*, 3>& words);

struct ChatEndpoint {
  std::string base_url;  // including the version: "https://api.openai.com/v1"
  std::string model;
  nlohmann::json extra = nlohmann::json::object();  // fields of the body to add, replace or (null) leave out
  std::map<std::string, std::string> rename = {};   // fields of the body, to the names that the server knows
  std::string config_name = {};                     // of the model, for messages
  ChatTimeouts timeouts;
  ChatBounds bounds;
};

// Stateless and thread-safe.
class ChatProtocol {
 public:
  virtual ~ChatProtocol() = default;
  virtual std::string path() const = 0;  // appended to base_url
  // The part of the request that this protocol does not support; empty if none.
  virtual std::string cannot_say(const ChatRequest&) const { return {}; }
  virtual std::vector<std::string> headers(const Secret&) const = 0;
  virtual nlohmann::json body(const ChatRequest&, const ChatEndpoint&) const = 0;
  virtual std::unique_ptr<AnswerReader> reader(std::function<void(const ChatDelta&)> delta) const = 0;
};

// Reads one response, from its first byte to its end, whatever comes: `done` is called once, by end().
std::unique_ptr<HttpReader> response_reader(std::unique_ptr<AnswerReader>, const Secret&, SentBody,
                                            const ChatBounds&, std::function<void(ChatResult)> done);

class HttpChatModel : public ChatModel {
 public:
  HttpChatModel(std::unique_ptr<const ChatProtocol>, ChatEndpoint, Secret, std::shared_ptr<HttpClient>);
  ~HttpChatModel() override;
  void ask(const ChatRequest&, std::stop_token, ChatListener) override;

 private:
  struct Shared;
  std::shared_ptr<const Shared> shared_;
  std::shared_ptr<HttpClient> client_;
};

// The protocols, each in its own source.

// Anthropic's Messages protocol: tool use, prompt caching with breakpoints, thinking blocks kept between
// turns.
std::unique_ptr<const ChatProtocol> anthropic_protocol();

// OpenAI's Chat Completions protocol, served by OpenAI, vLLM, llama.cpp, SGLang, Ollama, LiteLLM and others.
std::unique_ptr<const ChatProtocol> openai_protocol();

// OpenAI's Responses protocol. Nothing is stored at the provider (store: false): encrypted reasoning is sent
// with the conversation.
std::unique_ptr<const ChatProtocol> openai_responses_protocol();

}  // namespace cultivar
