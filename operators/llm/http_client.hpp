// HTTP for many long, slow answers at once: one thread drives all transfers (libcurl's multi interface), and
// sleeps while nothing arrives. Redirects are not followed: they would carry the key somewhere else.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "operators/llm/chat_model.hpp"

namespace cultivar {

struct HttpCall {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // POSTed
  ChatTimeouts timeouts;
  std::size_t answer_bytes = 0;  // the most that the body of the answer may have
};

struct HttpHead {
  int status = 0;
  std::string content_type, request_id, location;
  std::string retry_after, retry_after_ms;  // as the headers say it
};

struct HttpEnd {
  bool complete = false;  // the server ended the body as HTTP wants it
  bool sent = false;      // the request went out, so that it may have cost something
  ChatError::Kind kind = ChatError::Kind::cut_off;  // unless complete
  std::string message;
};

// Told on the client's thread; must not block.
class HttpReader {
 public:
  virtual ~HttpReader() = default;
  virtual void head(const HttpHead&) = 0;         // before the first byte of the body
  virtual bool body(std::string_view bytes) = 0;  // false: enough; end() follows
  virtual void end(const HttpEnd&) = 0;           // exactly once, last
};

// Thread-safe. The destructor cancels what is in flight and waits until every reader was told.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void post(HttpCall, std::stop_token, std::unique_ptr<HttpReader>);
  // Ends a call that is not even tried, on the client's thread like all others.
  void end_later(std::unique_ptr<HttpReader>, HttpEnd);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
