// SPDX-License-Identifier: Apache-2.0
// kill -9 at any instant: an answer that arrived is in the record and is never paid for again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "engine/store/exchanges.hpp"
#include "operators/llm/chat_service.hpp"
#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

constexpr int kCalls = 12;
const SaidUsage kUsage{100, 0, 0, 25, 0};

std::string question_of(int i) {
  return "question " + std::to_string(i);
}

void make_run(const RunFolder& folder) {
  RunFacts facts;
  facts.name = facts.task_name = "x";
  facts.config_yaml = "name: x\n";
  facts.target = "cpu";
  facts.task_files = nlohmann::json::object();
  facts.environment = nlohmann::json::object();
  const auto writer = RecordWriter::create(folder, facts);
  BOOST_TEST_REQUIRE(writer.has_value(), (writer ? "" : writer.error().message));
}

struct Session {
  explicit Session(const RunFolder& folder, const ModelConfig& config) : writer(RecordWriter::open(folder)) {
    if (!writer) throw std::runtime_error(writer.error().message);
    auto opened = ExchangeStore::open(folder, *writer);
    if (!opened) throw std::runtime_error(opened.error().message);
    log = std::move(*opened);
    ChatServiceOptions options;
    options.models = {config};
    std::map<std::string, std::unique_ptr<ChatModel>> models;
    models[config.name] = made(config, std::make_shared<HttpClient>());
    auto started = ChatService::make(std::move(options), std::move(models), *log);
    if (!started) throw std::runtime_error(started.error().message);
    service = std::move(*started);
  }
  Expected<RecordWriter> writer;
  std::unique_ptr<ExchangeStore> log;
  std::unique_ptr<ChatService> service;
};

// Another process, forked while this one has no threads yet. It is told the server's port through a pipe,
// asks all questions in order and says after each that it has the answer.
struct Searcher {
  explicit Searcher(const RunFolder& folder, bool wait_after_first = false) {
    int in[2], out[2];
    if (::pipe(in) != 0 || ::pipe(out) != 0) throw std::runtime_error("pipe");
    pid = ::fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) {
      ::close(in[1]);
      ::close(out[0]);
      int port = 0;
      if (::read(in[0], &port, sizeof port) != sizeof port) ::_exit(3);
      try {
        Session session(folder, model_at("http://127.0.0.1:" + std::to_string(port) + "/v1", "openai"));
        for (int i = 0; i < kCalls; ++i) {
          const auto result = ask_and_wait(
              *session.service, {"mutate", "m", question(question_of(i), "mutate/" + std::to_string(i))});
          const char word = result ? 'y' : 'n';
          if (::write(out[1], &word, 1) != 1) ::_exit(4);
          if (wait_after_first) ::pause();
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        ::_exit(5);
      }
      ::_exit(0);
    }
    ::close(in[0]);
    ::close(out[1]);
    to = in[1];
    from = out[0];
  }
  ~Searcher() {
    end();
    ::close(to);
    ::close(from);
  }
  void begin(int port) const {
    if (::write(to, &port, sizeof port) != sizeof port) throw std::runtime_error("write");
  }
  // Never use a number that is not a child's process ID: kill(-1) would signal every process.
  int end() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
    }
    pid = 0;
    over = true;
    return status;
  }
  bool ended() {  // by itself
    if (!over && pid > 0 && ::waitpid(pid, &status, WNOHANG) == pid) {
      pid = 0;
      over = true;
    }
    return over;
  }
  int to = -1, from = -1, status = 0;

 private:
  pid_t pid = 0;
  bool over = false;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(exchange_kill)

BOOST_AUTO_TEST_CASE(an_answer_that_arrived_and_was_not_used_is_there_after_a_kill) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  make_run(run);
  Searcher searcher(run, true);
  ChatServer server([](const SeenRequest&) { return event_stream(openai_events("precious", kUsage)); });
  searcher.begin(server.port());
  char word = 0;
  BOOST_TEST_REQUIRE(::read(searcher.from, &word, 1) == 1);  // it has the answer but has not used it
  BOOST_TEST(word == 'y');
  BOOST_TEST(WTERMSIG(searcher.end()) == SIGKILL);

  Session session(run, model_at(server.url(), "openai"));
  const auto again = ask_and_wait(*session.service, {"mutate", "m", question(question_of(0), "mutate/0")});
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST(again->from_record);
  BOOST_TEST(again->answer.text == "precious");
  BOOST_TEST(server.seen().size() == 1U);
  BOOST_TEST(std::abs(session.service->state().spent.usd - 1e-6 * (100 * 2.0 + 25 * 10.0)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(killed_at_any_instant_nothing_that_arrived_is_asked_again) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  make_run(run);
  std::mt19937 random(7);
  std::map<std::string, int> asked;
  int kills = 0, sessions = 0;
  for (bool done = false; !done && sessions < 300;) {
    Searcher searcher(run);
    ++sessions;
    ChatServer server([](const SeenRequest& seen) {
      const std::string text = seen.body.at("messages").back().at("content");
      return event_stream(openai_events("answer to " + text, kUsage)).in_pieces(400, 0.004);
    });
    searcher.begin(server.port());
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20 + random() % 100);
    while (!searcher.ended() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (searcher.ended()) {
      const int status = searcher.status;
      BOOST_TEST_REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0), status);
      done = true;
    } else {
      searcher.end();
      ++kills;
    }
    for (const SeenRequest& seen : server.seen())
      ++asked[seen.body.at("messages").back().at("content").get<std::string>()];
  }
  BOOST_TEST_MESSAGE(kills << " kills");
  BOOST_TEST(kills >= 2);

  const auto record = Record::open(run.path());
  BOOST_TEST_REQUIRE(record.has_value());
  double usd = 0.0;
  for (int i = 0; i < kCalls; ++i) {
    const auto rows = exchanges_of(*record, "mutate/" + std::to_string(i));
    BOOST_TEST_REQUIRE(!rows.empty());
    for (std::size_t k = 0; k + 1 < rows.size(); ++k)  // only what never arrived was asked again
      BOOST_TEST((rows[k].state == ExchangeRow::State::sent));
    BOOST_TEST((rows.back().state == ExchangeRow::State::arrived));
    // Each request was in the record before it went out.
    BOOST_TEST(asked[question_of(i)] <= static_cast<int>(rows.size()));
    usd += rows.back().usd;
  }
  BOOST_TEST(std::abs(usd - kCalls * 1e-6 * (100 * 2.0 + 25 * 10.0)) < 1e-12);
  const auto answers = recorded_exchanges(*record);
  BOOST_TEST_REQUIRE(answers.size() == static_cast<std::size_t>(kCalls));
  for (int i = 0; i < kCalls; ++i)
    BOOST_TEST(answers[static_cast<std::size_t>(i)].answer.text == "answer to " + question_of(i));
}

BOOST_AUTO_TEST_SUITE_END()
