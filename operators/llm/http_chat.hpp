// A chat model behind an HTTP protocol with server-sent events. What differs between protocols is a
// ChatProtocol: pure translation, without a network.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operators/llm/chat_model.hpp"
#include "operators/llm/http_client.hpp"
#include "operators/llm/secret.hpp"
#include "operators/llm/sse.hpp"

namespace cultivar {

// Puts one streamed answer together. Used by one thread.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  // The data of one event. An error ends the call. May throw for a shape that the protocol does not
  // have (nlohmann's exceptions, an index that is not there); that is garbage.
  virtual std::optional<ChatError> event(const SseEvent&, const nlohmann::json& data) = 0;
  // A whole answer in place of a stream, from servers that do not stream.
  virtual std::optional<ChatError> whole(const nlohmann::json& body) = 0;
  virtual bool complete() const = 0;  // the protocol's own sign that nothing is missing was seen
  virtual ChatAnswer take() = 0;
  virtual const Usage* usage() const = 0;          // nullptr: the provider has not said
  virtual std::size_t received_bytes() const = 0;  // of text, reasoning and tool arguments so far
};

struct ChatEndpoint {
  std::string base_url;  // with its version: "https://api.openai.com/v1"
  std::string model;
  nlohmann::json extra = nlohmann::json::object();  // fields of the body, added or replaced
  ChatTimeouts timeouts;
  ChatBounds bounds;
};

// Stateless and thread-safe.
class ChatProtocol {
 public:
  virtual ~ChatProtocol() = default;
  virtual std::string path() const = 0;  // after base_url
  // What of the request this protocol has no words for; empty: nothing.
  virtual std::string cannot_say(const ChatRequest&) const { return {}; }
  virtual std::vector<std::string> headers(const Secret&) const = 0;
  virtual nlohmann::json body(const ChatRequest&, const ChatEndpoint&) const = 0;
  virtual std::unique_ptr<AnswerReader> reader(std::function<void(const ChatDelta&)> delta) const = 0;
};

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

}  // namespace cultivar
