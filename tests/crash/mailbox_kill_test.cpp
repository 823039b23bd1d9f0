// SPDX-License-Identifier: Apache-2.0
// kill -9 and Ctrl-C of a search whose language model is a mailbox, under a budget limit: a request keeps its
// identity however often it is repeated, answers written meanwhile are used, and no request of a finished
// question stays open.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "engine/store/askings.hpp"
#include "engine/store/summary.hpp"
#include "support/child_process.hpp"
#include "support/command.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};
std::atomic<bool> interrupted{false};

struct Mail : ScratchFolder {
  fs::path run = path() / "run", told = path() / "told", mail = path() / "mail";

  std::string session(const std::vector<std::string>& more = {}, const std::atomic<bool>& stop = kNever) {
    Runtime runtime = simulated_runtime({});
    runtime.cache = path() / "cache";  // remembers the mailbox, so that resume writes to it
    std::vector<std::string> all{"models.me={provider: mailbox, folder: \"" + mail.string() + "\"}",
                                 "operators={mutate: 1}", "asking={in_flight: 2}",
                                 "budget={evaluations: 100, tokens: 60000}"};
    return told_by(fs::exists(run / "run.db")
                       ? resume_search(run, more, runtime, {}, stop)
                       : begin_search(softmax_config(path() / "config", all), run, runtime, {}, stop));
  }
  pid_t in_child(const std::function<std::string()>& work) const { return testing::in_child(told, work); }
  static std::vector<fs::path> letters(const fs::path& folder) {
    std::vector<fs::path> all;
    std::error_code none_yet;
    for (const auto& file : fs::directory_iterator(folder, none_yet))
      if (file.path().extension() == ".md" && file.path().filename().string().front() != '.')
        all.push_back(file.path());
    return all;
  }
  template <class Condition>
  static bool soon(Condition condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  std::vector<ExchangeRow> exchanges() const { return exchanges_of(*Record::open(run)); }
  // Wait until both requests are pending again and recorded as sent, then kill the search.
  void killed_with_two_letters_out() {
    for (const fs::path& letter : letters(mail / "requests")) fs::remove(letter);
    const pid_t pid = in_child([&] { return session(); });
    BOOST_TEST(soon([&] { return letters(mail / "requests").size() == 2; }));
    BOOST_REQUIRE_MESSAGE(killed(pid), read_text(told));
  }
  void answer(const fs::path& letter, int number) const {
    const std::string name = kernel_named_in(read_text(letter));
    write_text(mail / "answers" / letter.filename(),
               renaming(name, "softmax_fast_" + std::to_string(number)));
  }
  std::string ended(const std::vector<std::string>& more = {}) {
    wait_for(in_child([&] { return session(more); }));
    return read_text(told);
  }
  std::string replayed() {
    wait_for(in_child([&] { return told_by(replay(run, simulated_runtime({}))); }));
    return read_text(told);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox_kill, Mail)

BOOST_AUTO_TEST_CASE(killed_again_and_again_a_letter_counts_once_and_its_answer_is_taken_under_the_cap) {
  killed_with_two_letters_out();
  const Summary first = summary_of(*Record::open(run));
  const auto unended = first.questions.at("unended");
  BOOST_TEST(unended.at("calls") == 2);
  const auto tokens = unended.at("tokens").get<std::int64_t>();
  BOOST_TEST(tokens > 30000);  // a third letter would not fit: the cap binds
  BOOST_TEST(first.budget.at("tokens").used == static_cast<double>(tokens));
  for (int i = 0; i < 3; ++i) killed_with_two_letters_out();
  BOOST_TEST(exchanges().size() == 2U);
  BOOST_TEST(summary_of(*Record::open(run)).questions.at("unended") == unended);

  // Answered while no search runs. The limit is lowered until nothing fits, and the answers still count.
  int number = 0;
  for (const fs::path& letter : letters(mail / "requests")) answer(letter, ++number);
  const std::string reason = ended({"budget.tokens=1000"});
  BOOST_TEST(reason.find("the budget for language models is exhausted") != std::string::npos, reason);
  const auto record = Record::open(run);
  int used = 0;
  for (const ExchangeRow& row : exchanges()) {
    BOOST_TEST((row.state == ExchangeRow::State::arrived), row.call);
    used += row.used_by != 0;
  }
  BOOST_TEST(used == 2);
  BOOST_TEST(summary_of(*record).questions.at("open") == 0);
  BOOST_TEST(summary_of(*record).questions.at("unended").at("calls") == 0);
  BOOST_TEST(letters(mail / "requests").empty());
  BOOST_TEST(letters(mail / "answers/taken").size() == 2U);
  BOOST_TEST(replayed() == "agrees");
}

BOOST_AUTO_TEST_CASE(letters_of_questions_that_a_cap_ends_are_closed_and_count_no_more) {
  killed_with_two_letters_out();
  const std::string reason = ended({"budget.tokens=1000"});
  BOOST_TEST(reason.find("the budget for language models is exhausted") != std::string::npos, reason);
  BOOST_TEST(letters(mail / "requests").empty());
  BOOST_TEST(letters(mail / "requests/closed").size() == 2U);
  const Summary summary = summary_of(*Record::open(run));
  BOOST_TEST(summary.questions.at("open") == 0);
  BOOST_TEST(summary.questions.at("unended").at("calls") == 0);
  BOOST_TEST(summary.budget.at("tokens").used == 0.0);  // nothing was paid
  BOOST_TEST(replayed() == "agrees");
}

BOOST_AUTO_TEST_CASE(interrupted_its_letters_stay_open_and_an_answer_given_meanwhile_counts) {
  const pid_t pid = in_child([&] {
    std::signal(SIGINT, [](int) { interrupted = true; });
    return session({}, interrupted);
  });
  BOOST_TEST(soon([&] { return letters(mail / "requests").size() == 2; }));
  kill(pid, SIGINT);
  wait_for(pid);
  BOOST_TEST(read_text(told).find("interrupted") != std::string::npos, read_text(told));
  const auto open = letters(mail / "requests");
  BOOST_TEST_REQUIRE(open.size() == 2U);
  BOOST_TEST(summary_of(*Record::open(run)).questions.at("open") == 2);
  BOOST_TEST(summary_of(*Record::open(run)).questions.at("unended").at("calls") == 0);
  int number = 0;
  for (const fs::path& letter : open) answer(letter, ++number);
  const auto before = Record::open(run)->count();
  ended({"budget.evaluations=" + std::to_string(before + 2)});
  BOOST_TEST(Record::open(run)->count() == before + 2);
  BOOST_TEST(letters(mail / "requests").empty());
  BOOST_TEST(replayed() == "agrees");
}

BOOST_AUTO_TEST_SUITE_END()
