// SPDX-License-Identifier: Apache-2.0
// Measures the cost of many calls in flight for this side: the CPU time of this process while a server in
// another process answers each call slowly in a stream.
//
//   bench-calls-in-flight [CALLS=64] [LATENCY_S=3] [ROUNDS=4] [TOKENS=80 a second]
#include <fmt/format.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>

#include "operators/llm/chat_service.hpp"
#include "support/chat_models.hpp"
#include "support/distant_server.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Starts after half of the latency; one event per token, in up to 100 pieces over the other half.
Reply slow_answer(double latency, int tokens) {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += "word ";
  Reply reply = event_stream(openai_events(text, {12000, 10000, 0, tokens, 0}));
  std::string events = reply.parts[1].bytes;
  reply.parts.resize(1);
  reply.parts[0].pause_s = latency / 2;
  const std::size_t piece = events.size() / 100;
  for (std::size_t at = 0; at < events.size(); at += piece)
    reply.then(events.substr(at, piece), latency / 200);
  return reply;
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 64;
  const double latency = argc > 2 ? std::atof(argv[2]) : 3.0;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 4;
  const int tokens = argc > 4 ? std::atoi(argv[4]) : static_cast<int>(80 * latency);
  const DistantServer server(
      [=](const SeenRequest&) { return slow_answer(latency, tokens); });  // before any thread

  MemoryLog log;
  ModelConfig config = model_at(fmt::format("http://127.0.0.1:{}/v1", server.port()), "openai");
  config.limits.in_flight = calls;
  config.timeouts = {10, 120, 60, 300};
  std::map<std::string, std::unique_ptr<ChatModel>> models;
  models["m"] = made(config, std::make_shared<HttpClient>());
  ChatServiceOptions options;
  options.models = {config};
  auto service = std::move(*ChatService::make(std::move(options), std::move(models), log));

  const auto begun = std::chrono::steady_clock::now();
  const double before = cpu_s();
  int answered = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::future<ServedResult>> results;
    for (int i = 0; i < calls; ++i) {
      auto promise = std::make_shared<std::promise<ServedResult>>();
      results.push_back(promise->get_future());
      ServedListener listener;
      listener.done = [promise](ServedResult result) { promise->set_value(std::move(result)); };
      // 48 kB, as a prompt of 12,000 tokens has.
      service->ask({"mutate", "m", question(std::string(48'000, 'p'), fmt::format("{}/{}", round, i))}, {},
                   std::move(listener));
    }
    for (auto& result : results) answered += result.get().has_value() ? 1 : 0;
  }
  const double cpu = cpu_s() - before;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  fmt::print(
      "{} calls at once, {} rounds, latency {:g} s, {} tokens each: {} answered in {:.1f} s, {:.3f} s of CPU "
      "= {:.2f} % of "
      "one core, "
      "{:.2f} ms a call\n",
      calls, rounds, latency, tokens, answered, wall, cpu, 100.0 * cpu / wall, 1e3 * cpu / (calls * rounds));
  service.reset();
  return answered == calls * rounds ? 0 : 1;
}
