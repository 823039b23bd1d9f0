// SPDX-License-Identifier: Apache-2.0
// Sends requests that are changed at random to the dashboard's server, and asks it now and then whether it
// still answers:
//
//   bench-dashboard-fuzz [seconds] [seed]     with the asan preset, ten minutes find what an hour of reading
//   does not
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/dashboard/server.hpp"
#include "support/command.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// What a server says to these bytes, up to 64 KiB, waiting at most a fifth of a second for each part.
std::string said_to(unsigned short port, const std::string& bytes) {
  const int at = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{0, 200'000};
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

}  // namespace

int main(int count, char** words) {
  const double seconds = count > 1 ? std::stod(words[1]) : 10.0;
  std::mt19937_64 random(count > 2 ? std::stoull(words[2]) : 1);
  const auto any = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 120;
  run.hostile = true;
  write_synthetic_run(folder / "run", run);
  Dashboard dashboard({folder / "run"}, {});
  AccessRules rules = rules_of_loopback();
  rules.token = "0123456789abcdef";
  auto server = DashboardServer::listen({"127.0.0.1", 0, rules}, dashboard);
  if (!server) return fmt::print(stderr, "{}\n", server.error().message), 1;
  std::atomic<bool> stop{false};
  std::thread serving([&] { (*server)->serve(stop); });
  const unsigned short port = (*server)->port();
  const std::string right =
      "GET /api/state HTTP/1.1\r\nHost: localhost\r\nCookie: cultivar_token=0123456789abcdef\r\nConnection: "
      "close\r\n\r\n";
  const std::vector<std::string> pieces{"GET ",
                                        "HEAD ",
                                        "POST ",
                                        "/",
                                        "/api/",
                                        "table",
                                        "variant",
                                        "children",
                                        "series",
                                        "events",
                                        "?run=run",
                                        "&id=",
                                        "&from=",
                                        "&text=",
                                        "&sort=fitness",
                                        "%",
                                        "%00",
                                        "\xff",
                                        "..",
                                        " HTTP/1.1\r\n",
                                        " HTTP/9.9\r\n",
                                        "Host: localhost\r\n",
                                        "Host: \r\n",
                                        "Cookie: cultivar_token=0123456789abcdef\r\n",
                                        "Cookie: ;;=;",
                                        "Content-Length: 5\r\n",
                                        "Content-Length: -1\r\n",
                                        "Transfer-Encoding: chunked\r\n",
                                        "Range: bytes=0-\r\n",
                                        "Upgrade: h2c\r\n",
                                        "Expect: 100-continue\r\n",
                                        "\r\n",
                                        "\r\n\r\n",
                                        "\n",
                                        "0\r\n\r\n",
                                        std::string(70'000, 'a'),
                                        std::string("\0", 1),
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                        "\x16\x03\x01"};
  std::int64_t sent = 0, answered = 0, right_ones = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool alive = true;
  while (alive && std::chrono::steady_clock::now() < until) {
    std::string bytes;
    if (any(2) == 0) {  // a right one, a little changed
      bytes = "GET /api/" + pieces[5 + any(4)] + "?run=run&id=" + std::to_string(any(130)) +
              "&from=" + std::to_string(any(300)) +
              " HTTP/1.1\r\nHost: localhost\r\nCookie: cultivar_token=0123456789abcdef\r\n\r\n";
      for (std::size_t k = any(4); k > 0; --k) {
        const std::size_t at = any(bytes.size());
        if (any(2) == 0)
          bytes[at] = static_cast<char>(any(256));
        else
          bytes.insert(at, pieces[any(pieces.size())]);
      }
    } else {
      for (std::size_t k = 1 + any(12); k > 0; --k) bytes += pieces[any(pieces.size())];
    }
    const std::string said = said_to(port, bytes);
    ++sent;
    answered += said.starts_with("HTTP/1.1 ");
    right_ones += said.starts_with("HTTP/1.1 200");
    if (sent % 100 == 0) alive = said_to(port, right).starts_with("HTTP/1.1 200");
  }
  stop = true;
  serving.join();
  fmt::print("{} requests sent, {} answered, {} of them with a view; the server {}\n", sent, answered,
             right_ones, alive ? "still answers" : "no longer answers");
  return alive && right_ones > 0 ? 0 : 1;
}
