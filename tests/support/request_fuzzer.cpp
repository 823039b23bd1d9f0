// SPDX-License-Identifier: Apache-2.0
#include "support/request_fuzzer.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace cultivar::testing {

namespace {

const std::vector<std::string> kViews{
    "state",   "series",        "path",   "children", "islands", "failures", "operators", "devices",
    "budgets", "interventions", "events", "table",    "variant", "source",   "runs",      "suite"};
const std::vector<std::string> kValues{"id",    "from",     "count", "text",  "sort", "order",
                                       "state", "operator", "model", "stage", "by",   "island",
                                       "suite", "run",      "after", "reason"};
const std::vector<std::string> kWords{"1",
                                      "-1",
                                      "0",
                                      "99999999999999999999",
                                      "run",
                                      "fitness",
                                      "up",
                                      "mutate",
                                      "large",
                                      "compile",
                                      "rejected",
                                      "%00",
                                      "%ff",
                                      "%25",
                                      "%2e%2e",
                                      "..",
                                      "/",
                                      "'",
                                      "\"",
                                      "<script>",
                                      "%27%20OR%201=1",
                                      "\x80",
                                      "%",
                                      "promoted",
                                      "count",
                                      "%5c",
                                      "_",
                                      "+"};
const std::vector<std::string> kPieces{"GET ",
                                       "HEAD ",
                                       "POST ",
                                       "/",
                                       "/api/",
                                       "?run=run",
                                       "&id=",
                                       "%",
                                       "%00",
                                       "\xff",
                                       "..",
                                       " HTTP/1.1\r\n",
                                       " HTTP/1.0\r\n",
                                       " HTTP/9.9\r\n",
                                       "Host: localhost\r\n",
                                       "Host: \r\n",
                                       "Host: evil.example\r\n",
                                       "Cookie: ;;=;",
                                       "Origin: null\r\n",
                                       "Content-Length: 5\r\n",
                                       "Content-Length: -1\r\n",
                                       "Content-Length: 99999999999999999999\r\n",
                                       "Transfer-Encoding: chunked\r\n",
                                       "Range: bytes=0-\r\n",
                                       "Upgrade: h2c\r\n",
                                       "Connection: keep-alive\r\n",
                                       "Expect: 100-continue\r\n",
                                       "\r\n",
                                       "\r\n\r\n",
                                       "\n",
                                       "\r",
                                       ":",
                                       " ",
                                       "0\r\n\r\n",
                                       "5\r\nhello\r\n",
                                       std::string(70'000, 'a'),
                                       std::string("\0", 1),
                                       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                       "\x16\x03\x01"};

}  // namespace

std::size_t RequestFuzzer::any(std::size_t below) {
  return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
}

void RequestFuzzer::change(std::string& text) {
  const std::size_t at = any(text.size() + 1);
  switch (any(4)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(any(256));
      break;
    case 1:
      text.insert(at, kPieces[any(kPieces.size())]);
      break;
    case 2:
      text.erase(at, 1 + any(8));
      break;
    default:
      text.insert(at, text.substr(any(text.size() + 1), any(40)));
  }
}

std::string RequestFuzzer::target() {
  static const std::vector<std::string> pages{"/", "/app.js", "/style.css", "/events?run=run", "/run.db"};
  if (any(20) == 0) return pages[any(pages.size())];
  std::string text = "/api/" + kViews[any(kViews.size())] + "?run=run";
  for (std::size_t k = any(6); k > 0; --k) {
    text += "&" + kValues[any(kValues.size())] + "=";
    text += any(3) == 0 ? std::to_string(any(140)) : kWords[any(kWords.size())];
  }
  return text;
}

PageRequest RequestFuzzer::request() {
  static const std::vector<std::string> hosts{"localhost", "127.0.0.1:8321", "[::1]:1", "LOCALHOST:80"};
  PageRequest request;
  request.repeated = any(30) == 0;
  request.method = any(10) == 0 ? "HEAD" : "GET";
  request.target = target();
  request.host = hosts[any(hosts.size())];
  if (!token_.empty() && any(10) != 0) {
    request.cookie = "a=b";
    for (const char* port : {"", "_8321", "_1", "_80"})
      request.cookie += fmt::format("; cultivar_token{}={}", port, token_);
  }
  if (!token_.empty() && any(20) == 0) request.authorization = "Bearer " + token_;
  if (any(3) == 0) request.fetch_site = any(4) == 0 ? "cross-site" : "same-origin";
  if (any(3) == 0) request.origin = "http://" + request.host;
  std::string* const fields[] = {&request.target,     &request.target,       &request.method,
                                 &request.host,       &request.origin,       &request.cookie,
                                 &request.fetch_site, &request.authorization};
  if (any(2) == 0)
    for (std::size_t k = 1 + any(3); k > 0; --k) change(*fields[any(std::size(fields))]);
  return request;
}

std::string RequestFuzzer::bytes() {
  std::string text;
  if (any(3) == 0) {
    for (std::size_t k = 1 + any(12); k > 0; --k) text += kPieces[any(kPieces.size())];
    return text;
  }
  for (std::size_t k = 1 + any(3); k > 0; --k) {  // also several on one connection
    text += (any(10) == 0 ? "HEAD " : "GET ") + target() + " HTTP/1.1\r\nHost: localhost\r\n";
    if (!token_.empty()) text += "Cookie: cultivar_token=" + token_ + "\r\n";
    text += "\r\n";
  }
  if (any(2) == 0)
    for (std::size_t k = 1 + any(4); k > 0; --k) change(text);
  return text;
}

Answered answered(Dashboard& dashboard, const PageRequest& request, const AccessRules& rules) {
  Answered result;
  try {
    const auto refused = refusal(request, rules);
    const PageResponse response = refused ? *refused : dashboard.answer(request);
    result.status = response.status;
    static constexpr int known[] = {200, 303, 400, 401, 403, 404, 405, 421};
    const bool reads = request.method == "GET" || request.method == "HEAD";
    const bool may_read = rules.token.empty() ||
                          (request.cookie + request.authorization).find(rules.token) != std::string::npos;
    const bool view = response.type.starts_with("application/json");
    constexpr std::size_t kMost = 4 << 20;
    if (std::ranges::find(known, response.status) == std::end(known))
      result.wrong = fmt::format("status {}: {}", response.status, response.body.substr(0, 300));
    else if (response.status == 200 && !(reads && may_read))
      result.wrong = "it may not be read";
    else if (response.body.size() > kMost)
      result.wrong = fmt::format("{} bytes", response.body.size());
    else if (view && !nlohmann::json::accept(response.body))
      result.wrong = "no JSON in UTF-8";
    else if (response.status != 200 && response.body.find("/tmp/") != std::string::npos)
      result.wrong = "it names a path: " + response.body.substr(0, 300);
    for (const auto& [name, value] : response.headers)
      if (value.find_first_of("\r\n") != std::string::npos)
        result.wrong = "a header with a line end: " + name;
  } catch (const std::exception& error) {
    result.wrong = error.what();
  }
  return result;
}

std::string said_to(unsigned short port, const std::string& bytes, double patience_s) {
  const int at = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{static_cast<time_t>(patience_s),
                         static_cast<suseconds_t>(1e6 * std::fmod(patience_s, 1.0))};
  ::setsockopt(at, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string said;
  if (::connect(at, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    (void)!::send(at, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(at, SHUT_WR);
    char buffer[4096];
    for (ssize_t count; said.size() < (64U << 10) && (count = ::recv(at, buffer, sizeof buffer, 0)) > 0;)
      said.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(at);
  return said;
}

}  // namespace cultivar::testing
