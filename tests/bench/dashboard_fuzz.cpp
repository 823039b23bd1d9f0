// SPDX-License-Identifier: Apache-2.0
// Sends requests that are changed at random to the dashboard's handlers and to its server, and asks the
// server now and then whether it still answers:
//
//   bench-dashboard-fuzz [SECONDS] [SEED]     with the asan preset, ten minutes find what an hour of reading
//   does not
//
// Prints what was wrong; exit code 1 if anything was.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "engine/dashboard/server.hpp"
#include "support/command.hpp"
#include "support/request_fuzzer.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

int main(int count, char** words) {
  const double seconds = count > 1 ? std::stod(words[1]) : 10.0;
  const std::uint64_t seed = count > 2 ? std::stoull(words[2]) : 1;
  const std::string token = "0123456789abcdef";
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 120;
  run.hostile = true;
  write_synthetic_run(folder / "run", run);
  Dashboard dashboard({folder / "run"}, {}), served({folder / "run"}, {});
  AccessRules rules = rules_of_loopback(), open = rules;
  rules.token = token;
  auto server = DashboardServer::listen({"127.0.0.1", 0, rules}, served);
  if (!server) return fmt::print(stderr, "{}\n", server.error().message), 1;
  std::atomic<bool> stop{false};
  std::thread serving([&] { (*server)->serve(stop); });
  const unsigned short port = (*server)->port();
  const std::string right = "GET /api/state HTTP/1.1\r\nHost: localhost\r\nCookie: cultivar_token=" + token +
                            "\r\nConnection: close\r\n\r\n";
  RequestFuzzer with_token(seed, token), without(seed + 1, ""), of_connections(seed + 2, token);
  std::map<int, std::int64_t> statuses;
  std::int64_t handled = 0, wrong = 0, sent = 0, replied = 0, views = 0;
  const auto handle = [&](RequestFuzzer& fuzzer, const AccessRules& who) {
    const PageRequest request = fuzzer.request();
    const Answered said = answered(dashboard, request, who);
    ++handled;
    ++statuses[said.status];
    if (said.wrong.empty() || ++wrong > 20) return;
    fmt::print("wrong: {}: {} {}\n", said.wrong, request.method, request.target.substr(0, 400));
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool alive = true;
  while (alive && std::chrono::steady_clock::now() < until) {
    for (int i = 0; i < 20; ++i) handle(with_token, rules), handle(without, open);
    const std::string said = said_to(port, of_connections.bytes());
    ++sent;
    replied += said.starts_with("HTTP/1.1 ");
    views += said.starts_with("HTTP/1.1 200");
    if (sent % 100 == 0) alive = said_to(port, right, 60.0).starts_with("HTTP/1.1 200");
  }
  stop = true;
  serving.join();
  fmt::print("{} requests to the handlers, {} of them wrongly answered; by status:", handled, wrong);
  for (const auto& [status, number] : statuses) fmt::print(" {} {}", status, number);
  fmt::print("\n{} connections to the server, {} of them answered, {} with a page or a view; the server {}\n",
             sent, replied, views, alive ? "still answers" : "no longer answers");
  return alive && views > 0 && wrong == 0 ? 0 : 1;
}
