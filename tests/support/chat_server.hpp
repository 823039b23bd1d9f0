// A real HTTP server on this machine that speaks what language models speak, and does what they do on bad
// days. Its script decides each reply from the request that came.
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
  int number = 0;  // from 1 on, in the order of arrival
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string text;
  nlohmann::json body;  // discarded when it is no JSON
};

// Bytes, as they go over the wire; pauses between them; and how it ends.
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
  Reply& cut_after(std::size_t bytes);                       // of everything so far
  Reply& in_pieces(std::size_t size, double pause_s = 0.0);  // the same bytes, torn anywhere
};

class ChatServer {
 public:
  using Script = std::function<Reply(const SeenRequest&)>;
  explicit ChatServer(Script);  // a thread for each connection; the script is called by one at a time
  ~ChatServer();
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

// Whole event streams. Tokens are as each protocol counts them: input with the cached ones at OpenAI's,
// without them at Anthropic's.
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
