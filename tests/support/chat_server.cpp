// SPDX-License-Identifier: Apache-2.0
#include "support/chat_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace cultivar::testing {

using nlohmann::json;

Reply& Reply::then(std::string bytes, double pause_s) {
  parts.push_back({std::move(bytes), pause_s});
  return *this;
}
Reply& Reply::stall() {
  end = End::stall;
  return *this;
}
Reply& Reply::reset() {
  end = End::reset;
  return *this;
}

Reply& Reply::cut_after(std::size_t bytes) {
  std::vector<Part> kept;
  for (Part& part : parts) {
    if (bytes == 0) break;
    part.bytes.resize(std::min(part.bytes.size(), bytes));
    bytes -= part.bytes.size();
    kept.push_back(std::move(part));
  }
  parts = std::move(kept);
  return *this;
}

Reply& Reply::in_pieces(std::size_t size, double pause_s) {
  std::string all;
  for (const Part& part : parts) all += part.bytes;
  parts.clear();
  for (std::size_t at = 0; at < all.size(); at += size) parts.push_back({all.substr(at, size), pause_s});
  return *this;
}

struct ChatServer::State {
  Script script;
  int listener = -1, port = 0;
  mutable std::mutex mutex;
  std::vector<SeenRequest> seen;
  std::atomic<bool> closing = false;
  std::list<std::thread> connections;
  std::thread acceptor;

  // False: the server ends.
  bool pause(double seconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!closing && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(
          std::chrono::milliseconds(20), end - std::chrono::steady_clock::now()));
    return !closing;
  }

  bool read_request(int fd, SeenRequest& request) const {
    std::string text;
    std::size_t head = std::string::npos, length = 0;
    for (;;) {
      if (head == std::string::npos) {
        head = text.find("\r\n\r\n");
        if (head != std::string::npos) parse_head(text.substr(0, head), request, length);
      }
      if (head != std::string::npos && text.size() >= head + 4 + length) break;
      pollfd wait{fd, POLLIN, 0};
      if (::poll(&wait, 1, 50) == 0) {
        if (closing) return false;
        continue;
      }
      char buffer[65536];
      const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return false;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    request.text = text.substr(head + 4, length);
    request.body = json::parse(request.text, nullptr, false);
    return true;
  }

  static void parse_head(const std::string& head, SeenRequest& request, std::size_t& length) {
    std::size_t at = head.find("\r\n");
    const std::string first = head.substr(0, at);
    const std::size_t space = first.find(' ');
    request.path = first.substr(space + 1, first.rfind(' ') - space - 1);
    while (at != std::string::npos) {
      const std::size_t end = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, end == std::string::npos ? end : end - at - 2);
      at = end;
      const std::size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = line.substr(std::min(line.size(), colon + 2));
    }
    if (request.headers.contains("content-length"))
      length = static_cast<std::size_t>(std::atoll(request.headers["content-length"].c_str()));
  }

  void serve(int fd) {
    SeenRequest request;
    if (read_request(fd, request)) {
      Reply reply;
      {
        const std::lock_guard lock(mutex);
        request.number = static_cast<int>(seen.size()) + 1;
        seen.push_back(request);
        reply = script(request);
      }
      for (const Reply::Part& part : reply.parts)
        if (!(part.pause_s == 0.0 || pause(part.pause_s)) || !send_all(fd, part.bytes)) break;
      if (reply.end == Reply::End::stall) {
        pollfd wait{fd, POLLIN, 0};
        char byte = 0;  // until the client hangs up
        while (!closing && (::poll(&wait, 1, 20) == 0 || ::recv(fd, &byte, 1, MSG_DONTWAIT) > 0)) {
        }
      }
      if (reply.end == Reply::End::reset) {
        const linger hard{1, 0};
        ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      }
    }
    ::close(fd);
  }

  static bool send_all(int fd, const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t sent = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += static_cast<std::size_t>(sent);
    }
    return true;
  }

  void accept_all() {
    while (!closing) {
      pollfd wait{listener, POLLIN, 0};
      if (::poll(&wait, 1, 50) <= 0) continue;
      const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      connections.emplace_back([this, fd] { serve(fd); });
    }
  }
};

ChatServer::ChatServer(Script script) : state_(std::make_unique<State>()) {
  state_->script = std::move(script);
  state_->listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(state_->listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(state_->listener, 256) != 0 ||
      ::getsockname(state_->listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port to be had on 127.0.0.1");
  state_->port = ntohs(address.sin_port);
  state_->acceptor = std::thread([state = state_.get()] { state->accept_all(); });
}

ChatServer::~ChatServer() {
  stop();
  ::close(state_->listener);
}

void ChatServer::stop() {
  state_->closing = true;
  if (state_->acceptor.joinable()) state_->acceptor.join();
  for (std::thread& connection : state_->connections)
    if (connection.joinable()) connection.join();
}

int ChatServer::port() const {
  return state_->port;
}
std::string ChatServer::url() const {
  return fmt::format("http://127.0.0.1:{}/v1", state_->port);
}
std::vector<SeenRequest> ChatServer::seen() const {
  const std::lock_guard lock(state_->mutex);
  return state_->seen;
}

Reply status_reply(int status, const std::string& body, const std::vector<std::string>& headers) {
  std::string text = fmt::format(
      "HTTP/1.1 {} Said So\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", status, body.size());
  for (const std::string& header : headers) text += header + "\r\n";
  Reply reply;
  return reply.then(text + "Connection: close\r\n\r\n" + body);
}

Reply event_stream(const std::string& events) {
  Reply reply;
  reply.then(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: req_42\r\nConnection: "
      "close\r\n\r\n");
  return reply.then(events);
}

namespace {

std::string data(const json& value) {
  return "data: " + value.dump() + "\n\n";
}
std::string named(const json& value) {
  return "event: " + value.at("type").get<std::string>() + "\n" + data(value);
}

// Splits into about one word at a time, never in the middle of a character, because the JSON must be valid.
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> pieces;
  std::string piece;
  for (const char c : text) {
    piece += c;
    if (c == ' ' || c == '\n') pieces.push_back(std::exchange(piece, {}));
  }
  if (!piece.empty()) pieces.push_back(piece);
  return pieces;
}

}  // namespace

std::string openai_events(const std::string& text, const SaidUsage& usage, const std::vector<SaidCall>& calls,
                          const std::string& finish) {
  const auto chunk = [](const json& delta, const json& reason) {
    return data({{"id", "chatcmpl-7"},
                 {"object", "chat.completion.chunk"},
                 {"model", "gpt-test-2"},
                 {"choices", json::array({{{"index", 0}, {"delta", delta}, {"finish_reason", reason}}})}});
  };
  std::string events = chunk({{"role", "assistant"}, {"content", ""}}, nullptr);
  for (const std::string& word : words(text)) events += chunk({{"content", word}}, nullptr);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string& all = calls[i].arguments;
    const auto piece = [&](json function, bool first) {
      json call{{"index", i}, {"function", std::move(function)}};
      if (first) call["id"] = calls[i].id, call["type"] = "function";
      return chunk({{"tool_calls", json::array({call})}}, nullptr);
    };
    events += piece({{"name", calls[i].name}, {"arguments", ""}}, true);
    events += piece({{"arguments", all.substr(0, all.size() / 2)}}, false);
    events += piece({{"arguments", all.substr(all.size() / 2)}}, false);
  }
  events += chunk(json::object(), !finish.empty() ? finish : calls.empty() ? "stop" : "tool_calls");
  events += data({{"id", "chatcmpl-7"},
                  {"choices", json::array()},
                  {"usage",
                   {{"prompt_tokens", usage.input},
                    {"completion_tokens", usage.output},
                    {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
                    {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}}}});
  return events + "data: [DONE]\n\n";
}

std::string responses_events(const std::string& text, const SaidUsage& usage,
                             const std::vector<SaidCall>& calls) {
  std::string events =
      named({{"type", "response.created"}, {"response", {{"id", "resp_7"}, {"status", "in_progress"}}}});
  json output = json::array();
  output.push_back(
      {{"type", "reasoning"}, {"id", "rs_1"}, {"encrypted_content", "sealed"}, {"summary", json::array()}});
  if (!text.empty()) {
    for (const std::string& word : words(text))
      events += named({{"type", "response.output_text.delta"}, {"output_index", 1}, {"delta", word}});
    output.push_back({{"type", "message"},
                      {"role", "assistant"},
                      {"content", json::array({{{"type", "output_text"}, {"text", text}}})}});
  }
  for (const SaidCall& call : calls) {
    events += named({{"type", "response.function_call_arguments.delta"}, {"delta", call.arguments}});
    output.push_back({{"type", "function_call"},
                      {"call_id", call.id},
                      {"name", call.name},
                      {"arguments", call.arguments}});
  }
  for (std::size_t i = 0; i < output.size(); ++i)
    events += named({{"type", "response.output_item.done"}, {"output_index", i}, {"item", output[i]}});
  return events + named({{"type", "response.completed"},
                         {"response",
                          {{"id", "resp_7"},
                           {"status", "completed"},
                           {"model", "gpt-test-5"},
                           {"error", nullptr},
                           {"output", output},
                           {"usage",
                            {{"input_tokens", usage.input},
                             {"input_tokens_details", {{"cached_tokens", usage.cached}}},
                             {"output_tokens", usage.output},
                             {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}}}}}}});
}

std::string anthropic_events(const std::string& text, const SaidUsage& usage,
                             const std::vector<SaidCall>& calls, const std::string& stop) {
  std::string events = named({{"type", "message_start"},
                              {"message",
                               {{"id", "msg_7"},
                                {"model", "claude-test-3"},
                                {"content", json::array()},
                                {"usage",
                                 {{"input_tokens", usage.input},
                                  {"cache_read_input_tokens", usage.cached},
                                  {"cache_creation_input_tokens", usage.cache_written},
                                  {"output_tokens", 1}}}}}});
  int index = 0;
  const auto block = [&](const json& start, const std::vector<json>& deltas) {
    events += named({{"type", "content_block_start"}, {"index", index}, {"content_block", start}});
    for (const json& delta : deltas)
      events += named({{"type", "content_block_delta"}, {"index", index}, {"delta", delta}});
    events += named({{"type", "content_block_stop"}, {"index", index}});
    ++index;
  };
  events += named({{"type", "ping"}});
  block({{"type", "thinking"}, {"thinking", ""}}, {{{"type", "thinking_delta"}, {"thinking", "hm"}},
                                                   {{"type", "signature_delta"}, {"signature", "signed"}}});
  std::vector<json> deltas;
  for (const std::string& word : words(text)) deltas.push_back({{"type", "text_delta"}, {"text", word}});
  if (!text.empty()) block({{"type", "text"}, {"text", ""}}, deltas);
  for (const SaidCall& call : calls) {
    const std::size_t half = call.arguments.size() / 2;
    block({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", json::object()}},
          {{{"type", "input_json_delta"}, {"partial_json", call.arguments.substr(0, half)}},
           {{"type", "input_json_delta"}, {"partial_json", call.arguments.substr(half)}}});
  }
  events += named({{"type", "message_delta"},
                   {"delta",
                    {{"stop_reason", !stop.empty()   ? stop
                                     : calls.empty() ? "end_turn"
                                                     : "tool_use"}}},
                   {"usage", {{"output_tokens", usage.output}}}});
  return events + named({{"type", "message_stop"}});
}

}  // namespace cultivar::testing
