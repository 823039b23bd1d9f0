// SPDX-License-Identifier: Apache-2.0
// A proposal that repeats an earlier idea is answered with what that one gave, before it is measured.
#include "engine/store/similar_idea.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <mutex>
#include <thread>

#include "engine/store/summary.hpp"
#include "support/contains.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// Puts code before the kernel's only function.
std::string adding(const std::string& code, const std::string& idea) {
  const std::string line = "extern \"C\" void softmax(const float*, float*, int, int, int, int) {}";
  return "IDEA: " + idea + "\n\n<<<<<<< SEARCH\n" + line + "\n=======\n" + code + "\n" + line +
         "\n>>>>>>> REPLACE\n";
}

const std::string kFirst = "static float half(float x) { return 0.5f * x; }  // faster";
const std::string kAgain = "static  float half( float x ) {\n  return 0.5f*x; }";
const std::string kOther = "static float squared(float x) { return x * x; }";

}  // namespace

BOOST_AUTO_TEST_SUITE(similar_idea)

BOOST_FIXTURE_TEST_CASE(a_repeated_idea_is_answered_once_in_its_dialogue_and_the_replay_agrees, ScriptedRun) {
  std::mutex mutex;
  int letters = 0, told = 0;
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    const std::string last = last_said(seen);
    if (contains(last, "Your change is nearly the same as one that was tried before")) {
      ++told;
      BOOST_TEST(contains(last, "mutate of #1: halving"), last);
      BOOST_TEST(contains(last, " -> rejected at "), last);
      BOOST_TEST(contains(last, "say in the IDEA line how"), last);
      // The first time another idea, then the same one again, which is accepted.
      return say(told == 1 ? adding(kOther, "squaring") : adding(kAgain, "halving, but I insist"));
    }
    return say(++letters == 1 ? adding(kFirst, "halving") : adding(kAgain, "halving the input"));
  });
  begin(with_model(server.url(), "{mutate: 1}",
                   {"budget.evaluations=5", "asking.in_flight=1", "seeds=[plain.cpp]"}));
  BOOST_TEST(letters == 4);
  BOOST_TEST(told == 3);
  std::map<std::string, int> notes;
  record().each_individual([&](const IndividualRow& row) { ++notes[row.individual.descent.note]; });
  BOOST_TEST(notes["halving"] == 1);
  BOOST_TEST(notes["squaring"] == 1);
  BOOST_TEST(notes["halving, but I insist"] == 2);
  BOOST_TEST(notes["halving the input"] == 0);
  BOOST_TEST(summary_of(record()).tools.empty());  // no tool was called
  // A kernel from outside of the search is compared in the same way.
  std::string again = softmax_source("softmax_plain"), other = again;
  again.insert(again.find("extern"), kAgain + "\n");
  other.insert(other.find("extern"), "static float third(float x) { return x / 3; }\n");
  const std::string known = similar_earlier(record(), again, 1);
  BOOST_TEST(contains(known, "nearly the same as one that was tried before: "), known);
  BOOST_TEST(contains(known, ", mutate of 1 (halving"), known);
  BOOST_TEST(contains(known, " -> "), known);
  BOOST_TEST(similar_earlier(record(), other, 1) == "");
  BOOST_TEST(similar_earlier(record(), softmax_source("softmax_plain"), 1) == "");
  // Also if nobody says what it was made from.
  const std::string unfounded = similar_earlier(record(), again, 0);
  BOOST_TEST(contains(unfounded, "This kernel is nearly the same as one that was tried before: "), unfounded);
  BOOST_TEST(contains(unfounded, ", mutate of 1 (halving"), unfounded);
  BOOST_TEST(similar_earlier(record(), other, 0) == "");
  BOOST_TEST(contains(similar_earlier(record(), softmax_source("softmax_plain"), 0), ": 1, seed"));
  require_replay_agrees();
  resume({"budget.evaluations=6"});
  require_replay_agrees();
}

BOOST_FIXTURE_TEST_CASE(a_search_that_tells_no_ideas_takes_a_repeated_one_at_once, ScriptedRun) {
  std::mutex mutex;
  int letters = 0;
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    BOOST_TEST(!contains(last_said(seen), "Your change is nearly the same"));
    return say(++letters == 1 ? adding(kFirst, "halving") : adding(kAgain, "halving the input"));
  });
  begin(
      with_model(server.url(), "{mutate: 1}",
                 {"budget.evaluations=3", "asking.in_flight=1", "asking.ideas=false", "seeds=[plain.cpp]"}));
  BOOST_TEST(letters == 2);
  std::map<std::string, int> notes;
  record().each_individual([&](const IndividualRow& row) { ++notes[row.individual.descent.note]; });
  BOOST_TEST(notes["halving the input"] == 1);
  require_replay_agrees();
}

BOOST_FIXTURE_TEST_CASE(a_dialogue_that_was_told_so_before_a_kill_goes_on_as_it_was, ScriptedRun) {
  std::mutex mutex;
  int letters = 0, told = 0;
  std::atomic<bool> stop{false}, stopped{false};
  ChatServer server([&](const SeenRequest& seen) {
    const std::lock_guard lock(mutex);
    if (contains(last_said(seen), "Your change is nearly the same")) {
      // The first answer comes after the search has stopped.
      if (++told == 1)
        for (int i = 0; i < 600 && !stopped; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return say(adding(kOther, "squaring"));
    }
    return say(++letters == 1 ? adding(kFirst, "halving") : adding(kAgain, "halving the input"));
  });
  SearchCallbacks callbacks;
  callbacks.event = [&](const Event& event) {
    if (event.kind == "repeated") stop = true;  // before the model answers
  };
  begin(with_model(server.url(), "{mutate: 1}",
                   {"budget.evaluations=3", "asking.in_flight=1", "seeds=[plain.cpp]"}),
        {}, callbacks, stop);
  stopped = true;
  resume({"budget.evaluations=3"});
  BOOST_TEST(letters == 2);              // the answer in the record is not asked for again
  BOOST_TEST((told == 1 || told == 2));  // 1: it stopped before it sent the first one
  std::map<std::string, int> notes;
  record().each_individual([&](const IndividualRow& row) { ++notes[row.individual.descent.note]; });
  BOOST_TEST(notes["squaring"] == 1);
  require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()
