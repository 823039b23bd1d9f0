// SPDX-License-Identifier: Apache-2.0
// HTTP for many concurrent long, slow answers: one thread drives all transfers (libcurl's multi interface),
// and sleeps while no data arrives. Redirects are not followed, because they would send the key to another
// server.
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
  std::string body;                  // sent by POST
  ChatTimeouts timeouts;
  std::size_t answer_bytes = 0;  // size limit of the answer's body
};

struct HttpHead {
  int status = 0;
  std::string content_type, request_id, location;
  std::string retry_after, retry_after_ms;  // values of the headers
};

struct HttpEnd {
  bool complete = false;                            // the body ended correctly according to HTTP
  bool sent = false;                                // the request was sent, so it may have cost something
  ChatError::Kind kind = ChatError::Kind::cut_off;  // unless complete
  std::string message;
};

// Called on the client's thread; must not block.
class HttpReader {
 public:
  virtual ~HttpReader() = default;
  virtual void head(const HttpHead&) = 0;         // before the first byte of the body
  virtual bool body(std::string_view bytes) = 0;  // false: stop; end() follows
  virtual void end(const HttpEnd&) = 0;           // called exactly once, last
};

// Thread-safe. The destructor cancels calls in flight and waits until every reader's end() was called.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void post(HttpCall, std::stop_token, std::unique_ptr<HttpReader>);
  // Reports the end of a call that was not sent, on the client's thread like all others.
  void end_later(std::unique_ptr<HttpReader>, HttpEnd);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
