// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 100 s, operators/llm
// A real language model behind a real server: llama.cpp with a model of 260 thousand parameters that writes
// children's stories. It tests transport, streaming, counting, cancellation and limits against third-party
// code. It knows nothing about kernels, so every answer must be rejected, and a search must not suffer from
// it.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "operators/edits/edits.hpp"
#include "operators/llm/chat_service.hpp"
#include "operators/registry.hpp"
#include "support/chat_models.hpp"
#include "support/contains.hpp"
#include "support/npm_packages.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
namespace utf = boost::unit_test;
using namespace cultivar;
using namespace cultivar::testing;
using Kind = ChatError::Kind;

namespace {

constexpr const char* kPackage = "@node-llama-cpp/linux-x64";

boost::test_tools::assertion_result llama_is_here(utf::test_unit_id) {
  if (fs::exists(TINY_MODEL)) return npm_has("llama", kPackage, "3.22.1");
  boost::test_tools::assertion_result result(false);
  result.message() << "there is no " TINY_MODEL " (CMake's CULTIVAR_TINY_MODEL says where it is)";
  return result;
}

template <class Condition>
bool soon(Condition condition, double seconds = 20.0) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Llama {
  TemporaryFolder folder;
  RunningCommand server{{"node", CULTIVAR_SOURCE_DIR "/tests/support/llama_server.mjs",
                         (npm_folder("llama") / "node_modules" / kPackage).string(), TINY_MODEL},
                        {.folder = folder.path(), .environment = {}, .deadline_s = 800.0}};
  int port = 0;
  MemoryLog log;
  Caps caps;
  ModelConfig config;
  std::unique_ptr<ChatService> service;

  Llama() {
    soon([&] { return contains(server.out(), "\n") || !server.running(); }, 60.0);
    BOOST_TEST_REQUIRE(contains(server.out(), "\n"), server.err());
    port = nlohmann::json::parse(server.out()).at("port");
    config = model_at(url(), "openai", "tiny");
    config.timeouts = {10.0, 120.0, 60.0, 300.0};
    config.prices = {2.0, 0.2, 2.5, 10.0};
    config.extra = {{"truncate_prompt_tokens", 120}};
    config.limits.in_flight = 6;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port) + "/v1"; }

  // The server's own statistics.
  nlohmann::json seen() const {
    return facts(run_command({"node", "-e",
                              "fetch(process.argv[1]).then(r => r.text()).then(t => process.stdout.write(t))",
                              "http://127.0.0.1:" + std::to_string(port) + "/seen"}));
  }
  void start() {
    ChatServiceOptions options;
    options.models = {config};
    options.caps = caps;
    std::map<std::string, std::unique_ptr<ChatModel>> models;
    models["tiny"] = made(config, std::make_shared<HttpClient>());
    auto started = ChatService::make(std::move(options), std::move(models), log);
    BOOST_TEST_REQUIRE(started.has_value());
    service = std::move(*started);
  }
  std::future<ServedResult> ask(const std::string& text, std::int64_t tokens, std::stop_token stop = {},
                                std::function<void(const ChatDelta&)> delta = {}) {
    auto promise = std::make_shared<std::promise<ServedResult>>();
    ServedListener listener;
    listener.delta = std::move(delta);
    listener.done = [promise](ServedResult result) { promise->set_value(std::move(result)); };
    ChatRequest request = question(text, "mutate/" + text.substr(0, 20));
    request.max_output_tokens = tokens;
    service->ask({"mutate", "tiny", std::move(request)}, std::move(stop), std::move(listener));
    return promise->get_future();
  }
};

// The norm, of type `real`, is made anew for every STEP columns, so that no noise hides what `tune` finds.
std::string slow_kernel(const std::string& name, const std::string& real) {
  return "/*--- cultivar\nname: " + name + R"(
task: rms_norm
target: cpu
about: "One loop after the other."
requires: "dtype == f32"
tunables:
  STEP: {values: [64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024], default: 64}
launch:
  - kernel: rms_norm
    threads: 1
    args: [x, y, R, C, eps]
---*/
#include <cmath>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps) {
  for (int r = 0; r < R; ++r, x += C, y += C)
    for (int first = 0; first < C; first += STEP) {
      )" +
         real + " norm = first * " + real + R"((1e-30);
      for (int c = 0; c < C; ++c) norm = std::hypot(norm, )" +
         real + R"((x[c]));
      const float scale = float(1.0 / std::sqrt(double(norm) * double(norm) / C + double(eps)));
      for (int c = first; c < C && c < first + STEP; ++c) y[c] = x[c] * scale;
    }
}
)";
}

std::string why(const ServedResult& result) {
  return result ? "an answer" : std::string(name_of(result.error().kind)) + ": " + result.error().message;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(llama, Llama, *utf::precondition(llama_is_here))

BOOST_AUTO_TEST_CASE(two_hundred_answers_are_counted_as_the_server_counts_and_none_becomes_a_kernel) {
  constexpr std::size_t kRequests = 200;
  const Task task = load_task(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax");
  const std::string source = read_text(CULTIVAR_SOURCE_DIR "/tests/kernels/honest_softmax.cpp");
  start();
  std::vector<std::string> told(kRequests);  // each by the client's one thread
  std::vector<std::future<ServedResult>> results;
  for (std::size_t i = 0; i < kRequests; ++i)
    results.push_back(ask(std::to_string(i) + ": once upon a time, there was a kernel.\n" + source,
                          20 + static_cast<std::int64_t>(i % 7) * 25, {}, [&told, i](const ChatDelta& delta) {
                            if (delta.kind == ChatDelta::Kind::text) told[i] += delta.text;
                          }));
  Usage used;
  std::set<std::string> texts;
  double usd = 0.0;
  for (std::size_t i = 0; i < kRequests; ++i) {
    const ServedResult result = results[i].get();
    BOOST_TEST_REQUIRE(result.has_value(), why(result));
    const ChatAnswer& answer = result->answer;
    BOOST_TEST(told[i] == answer.text);  // streamed piece by piece, and whole in the end
    BOOST_TEST(!answer.usage.estimated);
    BOOST_TEST(answer.model == "stories260K");
    used += answer.usage;
    usd += result->usd;
    texts.insert(answer.text);

    BOOST_TEST(!find_edit(answer.text).has_value());
    Brief brief;
    brief.op = "mutate";
    brief.parents = {1};
    std::vector<Turn> turns(1);
    turns[0].request = question("Improve it.\n" + source);
    turns[0].answer = answer;
    PromptKit kit{{.resamples = 1}};
    const Move again = next_move(brief, {source, {}}, task, kit, turns);
    BOOST_TEST_REQUIRE(std::holds_alternative<ChatRequest>(again));  // it is told why, and may try again
    BOOST_TEST(!std::get<ChatRequest>(again).messages.back().text.empty());
    turns.push_back({std::get<ChatRequest>(again), answer});
    const Move end = next_move(brief, {source, {}}, task, kit, turns);
    BOOST_TEST_REQUIRE(std::holds_alternative<GivenUp>(end));
    BOOST_TEST(contains(std::get<GivenUp>(end).reason, "2 answers could not be used"));
  }
  BOOST_TEST(texts.size() > kRequests / 2);  // it is a model and no recording
  const auto server_side = seen();
  BOOST_TEST(server_side["finished"] == kRequests);
  BOOST_TEST(server_side["requests"] == kRequests);
  BOOST_TEST(server_side["prompt_tokens"] == used.input);
  BOOST_TEST(server_side["completion_tokens"] == used.output);
  BOOST_TEST(server_side["most_running"] <= 6);
  BOOST_TEST(soon([&] { return service->state().in_flight == 0; }));
  const ChatServiceState state = service->state();
  BOOST_TEST(state.spent.calls == static_cast<std::int64_t>(kRequests));
  BOOST_TEST(state.spent.failed == 0);
  BOOST_TEST((state.spent.usage == used));
  BOOST_TEST(std::abs(state.spent.usd - config.prices.usd_of(used)) < 1e-9);
  BOOST_TEST(std::abs(usd - state.spent.usd) < 1e-9);
  BOOST_TEST(state.spent.uncertain_usd == 0.0);
  BOOST_TEST(state.reserved_usd == 0.0);
}

BOOST_AUTO_TEST_CASE(stopping_in_the_middle_of_an_answer_stops_the_model_too_and_counts_what_was_said) {
  start();
  for (int i = 0; i < 5; ++i) {
    std::stop_source stop;
    std::atomic<int> pieces = 0;
    std::atomic<std::size_t> bytes = 0;
    auto result = ask(std::to_string(i) + " once", 800, stop.get_token(), [&](const ChatDelta& delta) {
      bytes += delta.text.size();
      ++pieces;
    });
    BOOST_TEST_REQUIRE(soon([&] { return pieces >= 3; }));
    const auto stopped = std::chrono::steady_clock::now();
    stop.request_stop();
    const ServedResult end = result.get();
    BOOST_TEST_REQUIRE(!end.has_value());
    BOOST_TEST((end.error().kind == Kind::cancelled), why(end));
    BOOST_TEST(seconds_since(stopped) < 2.0);
    BOOST_TEST(end.error().usage.estimated);
    BOOST_TEST(end.error().usage.output == estimated_tokens(bytes));
  }
  BOOST_TEST(soon([&] {
    const auto now = seen();
    return now["hung_up"] == 5 && now["running"] == 0;
  }));
  const ServedResult next = ask("and now", 10).get();
  BOOST_TEST_REQUIRE(next.has_value(), why(next));
  BOOST_TEST(soon([&] { return service->state().in_flight == 0; }));
  const Spent spent = service->state().spent;
  BOOST_TEST(spent.calls == 6);
  BOOST_TEST(spent.failed == 5);
  BOOST_TEST(std::abs(spent.usd - next->usd - spent.uncertain_usd) < 1e-12);
  BOOST_TEST(spent.uncertain_usd > 0.0);
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_model_s_context_is_too_large_and_costs_nothing) {
  config.extra = nlohmann::json::object();
  start();
  const ServedResult result = ask(std::string(20'000, 'x'), 10).get();
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().kind == Kind::too_large), why(result));
  BOOST_TEST(contains(result.error().message, "exceeds the available context size"));
  BOOST_TEST(soon([&] { return service->state().in_flight == 0; }));
  BOOST_TEST(service->state().spent.usd == 0.0);
  BOOST_TEST(seen()["requests"] == 1);  // it is not asked again
}

BOOST_AUTO_TEST_CASE(limits_of_calls_requests_and_tokens_are_kept) {
  const auto took = [&](int count, std::int64_t tokens) {
    start();
    const auto begun = std::chrono::steady_clock::now();
    std::vector<std::future<ServedResult>> results;
    for (int i = 0; i < count; ++i) results.push_back(ask(std::to_string(i) + " upon", tokens));
    for (auto& result : results) BOOST_TEST(result.get().has_value());
    const double seconds = seconds_since(begun);
    service.reset();
    log.rows.clear();
    return seconds;
  };
  config.limits.in_flight = 2;
  config.limits.requests = 30.0;  // the bucket's thirty, and one each two seconds
  BOOST_TEST(took(32, 10) >= 3.9);
  BOOST_TEST(seen()["most_running"] <= 2);
  config.limits.requests = 0.0;
  config.limits.output_tokens = 600.0;  // the bucket's 600, and ten a second
  // What is made is at most 20 tokens an answer, and 32 of them are 640.
  const auto before = seen();
  const double seconds = took(32, 20);
  const double made = seen()["completion_tokens"].get<double>() - before["completion_tokens"].get<double>();
  BOOST_TEST(made <= 600.0 + 10.0 * seconds);
  if (made > 620.0) BOOST_TEST(seconds >= (made - 600.0 - 20.0) / 10.0);
}

BOOST_AUTO_TEST_CASE(a_hard_cap_is_not_passed_and_what_is_refused_never_reaches_the_server) {
  caps.run.tokens = 6000;
  start();
  std::vector<std::future<ServedResult>> results;
  for (int i = 0; i < 60; ++i) results.push_back(ask(std::to_string(i) + std::string(300, '.'), 100));
  int answered = 0, refused = 0;
  for (auto& result : results) {
    const ServedResult one = result.get();
    answered += one.has_value();
    refused += !one && one.error().kind == Kind::over_budget;
  }
  BOOST_TEST(answered + refused == 60);
  BOOST_TEST(refused > 5);
  BOOST_TEST(answered > 10);
  const auto server_side = seen();
  BOOST_TEST(server_side["requests"] == answered);
  const auto total =
      server_side["prompt_tokens"].get<std::int64_t>() + server_side["completion_tokens"].get<std::int64_t>();
  BOOST_TEST(total <= 6000);
  BOOST_TEST(total > 5000);
  BOOST_TEST(soon([&] { return service->state().in_flight == 0; }));
  BOOST_TEST(service->state().spent.usage.total() == total);
}

BOOST_AUTO_TEST_CASE(a_search_that_asks_it_continues_without_harm_and_tune_finds_the_best) {
  write_own_task(folder.path(), "{evaluations: 10, wall: 15m}");
  write_text(folder / "one.cpp", slow_kernel("one", "float"));
  write_text(folder / "other.cpp", slow_kernel("other", "double"));
  const auto replace_in = [&](const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read_text(folder / file);
    write_text(folder / file, text.replace(text.find(from), from.size(), to));
  };
  replace_in("search.yaml", "[plain, blocked]", "[./one.cpp, ./other.cpp]");
  replace_in("search.yaml", "max_device_seconds: 1s", "max_device_seconds: 8s");
  set_own_workloads(folder.path(), "      - {R: 4096, C: 384}\n");
  write_text(
      folder / "search.yaml",
      read_text(folder / "search.yaml") +
          "operators: {tune: 1, mutate: 1, crossover: 1, critique_repair: 1}\nportfolio: {learn: false}\n"
          "asking: {in_flight: 3, resamples: 1}\n"
          "models:\n  tiny:\n    provider: openai\n    base_url: " +
          url() +
          "\n    model: stories260K\n    max_output_tokens: 60\n"
          "    extra: {truncate_prompt_tokens: 120}\n"
          "    prices: {input: 2, output: 10}\n");
  const auto result = cultivar_in(folder.path(), {"run", "search.yaml", "--json"}, 500.0);
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto end = facts(result);
  BOOST_TEST(end["state"] == "finished");
  BOOST_TEST(end["evaluations"] == 10);
  BOOST_TEST(end["best"]["ratio_to_seed"].get<double>() > 2.0);

  auto run = Record::open(folder / "runs/own");
  BOOST_TEST_REQUIRE(run.has_value());
  std::map<std::string, int> made;
  run->each_individual([&](const IndividualRow& row) { ++made[origin_name(row.individual.descent)]; });
  BOOST_TEST(made["tune"] == 8);
  BOOST_TEST(made.size() == 2U);  // seeds and tune
  const auto best = facts(cultivar_in(folder.path(), {"show", "own", "best", "--json"}));
  BOOST_TEST(best["operator"] == "tune");

  // Every question has its reason, and every operator has asked.
  std::set<std::string> asked;
  int given_up = 0;
  for (const EventRow& event : run->events(100'000)) {
    if (event.kind == "asked")
      for (const char* op : {"mutate", "crossover", "critique_repair"})
        if (contains(event.text, std::string(": ") + op + " asks tiny")) asked.insert(op);
    BOOST_TEST(event.kind != "answered", event.text);
    if (event.kind != "unanswered") continue;
    ++given_up;
    BOOST_TEST(contains(event.text, "2 answers could not be used"), event.text);
  }
  BOOST_TEST(asked.size() == 3U);
  BOOST_TEST(given_up >= 3);

  // The ledger matches the server's counts exactly; calls pending at the end of the search are marked as
  // estimated.
  Spent arrived, cut;
  for (const ExchangeRow& row : exchanges_of(*run)) {
    BOOST_TEST((row.state != ExchangeRow::State::sent));
    BOOST_TEST(row.used_by == 0);
    Spent& sum = row.state == ExchangeRow::State::arrived ? arrived : cut;
    if (row.state == ExchangeRow::State::failed) BOOST_TEST(row.error == "cancelled");
    ++sum.calls;
    sum.usage += row.usage;
    sum.usd += row.usd;
    BOOST_TEST(row.usage.estimated == (row.state == ExchangeRow::State::failed));
  }
  const auto server_side = seen();
  BOOST_TEST(server_side["requests"] == arrived.calls + cut.calls);
  BOOST_TEST(cut.calls <= 3);
  if (server_side["hung_up"] == cut.calls) {  // none ended at the very moment
    BOOST_TEST(server_side["finished"] == arrived.calls);
    BOOST_TEST(server_side["prompt_tokens"] == arrived.usage.input);
    BOOST_TEST(server_side["completion_tokens"] == arrived.usage.output);
  }
  const auto& tiny = end["models"]["tiny"];
  BOOST_TEST(tiny["calls"] == arrived.calls + cut.calls);
  BOOST_TEST(tiny["tokens"]["total"] == (arrived.usage.total() + cut.usage.total()));
  BOOST_TEST(std::abs(tiny["usd"].get<double>() - arrived.usd - cut.usd) < 1e-9);
  BOOST_TEST(std::abs(tiny["uncertain_usd"].get<double>() - cut.usd) < 1e-9);
  BOOST_TEST(std::abs(arrived.usd - 1e-6 * (2.0 * double(arrived.usage.input) +
                                            10.0 * double(arrived.usage.output))) < 1e-9);

  const std::string call = exchanges_of(*run).front().call;
  const auto prompt = cultivar_in(folder.path(), {"show", "own", call, "--prompt"});
  BOOST_TEST(prompt.exit == 0, prompt.err);
  const auto replayed = cultivar_in(folder.path(), {"replay", "own", "--json"});
  BOOST_TEST(replayed.exit == 0, replayed.out + replayed.err);
}

BOOST_AUTO_TEST_SUITE_END()
