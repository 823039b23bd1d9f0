// SPDX-License-Identifier: Apache-2.0
// A real HTTP server on this machine that speaks the protocols of language models and shows their faults. Its
// script chooses each reply from the request.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cultivar::testing {

struct SeenRequest {
  int number = 0;  // counted from 1, in order of arrival
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string text;
  nlohmann::json body;  // discarded if it is not JSON
};

// The bytes of a reply, the pauses between them, and how the reply ends.
struct Reply {
  struct Part {
    std::string bytes;
    double pause_s = 0.0;  // before them
  };
  std::vector<Part> parts;
  enum class End { close, reset, stall } end = End::close;  // stall: the connection stays, and is silent

  Reply& then(std::string bytes, double pause_s = 0.0);
  Reply& stall();
  Reply& reset();
  Reply& cut_after(std::size_t bytes);                       // counted over everything so far
  Reply& in_pieces(std::size_t size, double pause_s = 0.0);  // the same bytes, split at arbitrary places
};

class ChatServer {
 public:
  using Script = std::function<Reply(const SeenRequest&)>;
  explicit ChatServer(Script);  // one thread per connection; the script is called by one thread at a time
  ~ChatServer();
  void stop();  // waits for its threads; what the script wrote may then be read without a lock
  ChatServer(const ChatServer&) = delete;
  ChatServer& operator=(const ChatServer&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:PORT/v1"
  std::vector<SeenRequest> seen() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Reply status_reply(int status, const std::string& body, const std::vector<std::string>& headers = {});
Reply event_stream(const std::string& events);  // 200, text/event-stream, until the connection closes

// Whole event streams. Token counts follow each protocol: OpenAI's input includes cached tokens, Anthropic's
// does not.
struct SaidUsage {
  int input = 0, cached = 0, cache_written = 0, output = 0, reasoning = 0;
};
struct SaidCall {
  std::string id, name, arguments;
};
std::string openai_events(const std::string& text, const SaidUsage&, const std::vector<SaidCall>& = {},
                          const std::string& finish = "");
std::string responses_events(const std::string& text, const SaidUsage&, const std::vector<SaidCall>& = {});
std::string anthropic_events(const std::string& text, const SaidUsage&, const std::vector<SaidCall>& = {},
                             const std::string& stop = "");

}  // namespace cultivar::testing
