// SPDX-License-Identifier: Apache-2.0
// Measures what a whole search costs its engine while many questions are pending at a slow provider, and
// whether its device has work meanwhile: the real loop, record, chat service, HTTP client and protocol; the
// server is another process, and the device is simulated.
//
//   bench-search-in-flight [CALLS=64] [LATENCY_S=30] [WINDOWS=4 of LATENCY_S] [EVALUATION_S=0.5]
#include <fmt/format.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/distant_server.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Waits for half of the latency; the other half is a stream of 80 tokens per second.
Reply slow_answer(const SeenRequest& seen, double latency) {
  std::string thoughts;
  for (int i = 0; i < static_cast<int>(80 * latency); ++i) thoughts += i % 12 == 11 ? "word\n" : "word ";
  const std::string edit =
      renaming(kernel_named_in(first_said(seen)), "softmax_" + std::to_string(seen.number));
  Reply reply = event_stream(openai_events(thoughts + "\n" + edit, {12000, 10000, 0, 2400, 0}));
  const std::string events = reply.parts[1].bytes;
  reply.parts.resize(1);
  reply.parts[0].pause_s = latency / 2;
  for (std::size_t at = 0; at < events.size(); at += events.size() / 100)
    reply.then(events.substr(at, events.size() / 100), latency / 200);
  return reply;
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 64;
  const double latency = argc > 2 ? std::atof(argv[2]) : 30.0;
  const int windows = argc > 3 ? std::atoi(argv[3]) : 4;
  const double evaluation_s = argc > 4 ? std::atof(argv[4]) : 0.5;
  const DistantServer server(
      [=](const SeenRequest& seen) { return slow_answer(seen, latency); });  // before any thread

  std::atomic<int> evaluations = 0, out = 0;
  std::atomic<bool> stop = false;
  Simulation simulation;
  simulation.evaluate_s = evaluation_s;
  simulation.on_evaluate = [&](const Variant&) { ++evaluations; };
  SearchCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) { out = p.questions ? p.questions->calls : 0; };
  const ScratchFolder scratch;
  const Config config =
      softmax_config(scratch.path() / "config",
                     with_model(fmt::format("http://127.0.0.1:{}/v1", server.port()), "{tune: 1, mutate: 3}",
                                {"budget={evaluations: 100000000}", fmt::format("asking.in_flight={}", calls),
                                 fmt::format("models.m.limits={{in_flight: {}}}", calls)}));
  std::thread watch([&] {
    const auto pause = [](double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); };
    while (out < calls) pause(0.1);
    for (int window = 0; window < windows; ++window) {
      const auto begun = std::chrono::steady_clock::now();
      const double before = cpu_s();
      const int judged = evaluations;
      int least = calls;
      for (int i = 0; i < 20; ++i) {
        pause(latency / 20);
        least = std::min(least, out.load());
      }
      const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
      const int done = evaluations - judged;
      fmt::print(
          "{} questions out (least {}), latency {:g} s: engine {:.2f} % of one core; device busy {:.1f} %, "
          "{} "
          "evaluations of {:g} s in {:.1f} s\n",
          calls, least, latency, 100.0 * (cpu_s() - before) / wall, 100.0 * done * evaluation_s / wall, done,
          evaluation_s, wall);
      std::fflush(stdout);
    }
    stop = true;
  });
  const auto outcome =
      begin_search(config, scratch.path() / "run", simulated_runtime(simulation), callbacks, stop);
  watch.join();
  return outcome ? 0 : 1;
}
