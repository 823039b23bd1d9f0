// SPDX-License-Identifier: Apache-2.0
#include "engine/store/exchanges.hpp"

#include <SQLiteCpp/Database.h>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "engine/store/checkpoint.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/tool_results.hpp"
#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Run : TemporaryFolder {
  Run() : folder(path() / "run") {
    RunFacts facts;
    facts.name = facts.task_name = "x";
    facts.config_yaml = "name: x\n";
    facts.target = "cpu";
    facts.task_files = nlohmann::json::object();
    facts.environment = nlohmann::json::object();
    auto made_run = RecordWriter::create(folder, facts);
    BOOST_TEST_REQUIRE(made_run.has_value());
    writer.emplace(std::move(*made_run));
    open();
  }
  void open() {
    auto opened = ExchangeStore::open(folder, *writer);
    BOOST_TEST_REQUIRE(opened.has_value());
    store = std::move(*opened);
  }
  ExchangeId send(const std::string& call, const std::string& text, const std::string& model = "m") {
    SentRequest sent;
    sent.op = "mutate";
    sent.model = model;
    sent.request = question(text, call);
    sent.request_hash = hash_of(sent.request);
    sent.reserved.input = 500;
    sent.reserved.output = 1000;
    sent.reserved_usd = 0.25;
    const auto id = store->sent(sent);
    BOOST_TEST_REQUIRE(id.has_value(), (id ? "" : id.error().message));
    return *id;
  }
  static ChatAnswer answer(const std::string& text) {
    ChatAnswer a;
    a.text = text;
    a.model = "model-x";
    a.usage = {10, 20, 3, 40, 5, false};
    a.tool_calls.push_back({"c1", "compile", "{}"});
    return a;
  }
  // As a program of version 1 left it.
  void make_old(int version = 1) {
    store.reset();
    writer.reset();
    SQLite::Database db(folder.database().string(), SQLite::OPEN_READWRITE);
    db.exec("DROP TABLE tool_results");
    if (version == 1) db.exec("DROP TABLE exchanges");
    if (version == 1) db.exec("DROP TABLE requests");
    db.exec("PRAGMA user_version = " + std::to_string(version));
  }
  RunFolder folder;
  std::optional<RecordWriter> writer;
  std::unique_ptr<ExchangeStore> store;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(exchanges, Run)

BOOST_AUTO_TEST_CASE(an_answer_is_found_by_its_call_and_its_exact_request) {
  const ExchangeId id = send("mutate/1/0", "x");
  BOOST_TEST(!store->find("mutate/1/0", hash_of(question("x")))->has_value());  // not yet
  BOOST_TEST(store->arrived(id, answer("the answer \xE2\x82\xAC"), 0.5).has_value());
  open();  // another session
  const auto found = store->find("mutate/1/0", hash_of(question("x")));
  BOOST_TEST_REQUIRE(found->has_value());
  BOOST_TEST((*found)->id == id);
  BOOST_TEST((*found)->answer.text == "the answer \xE2\x82\xAC");
  BOOST_TEST((*found)->answer.tool_calls.size() == 1U);
  BOOST_TEST((*found)->usd == 0.5);
  BOOST_TEST(!store->find("mutate/1/0", hash_of(question("y")))->has_value());
  BOOST_TEST(!store->find("mutate/1/1", hash_of(question("x")))->has_value());
}

BOOST_AUTO_TEST_CASE(sums_count_what_arrived_what_failed_and_what_is_unknown) {
  BOOST_TEST(store->arrived(send("a", "x"), answer("y"), 0.5).has_value());
  ChatError error;
  error.kind = ChatError::Kind::cut_off;
  error.message = "cut";
  error.usage.input = 7;
  error.usage.estimated = true;
  BOOST_TEST(store->failed(send("b", "x"), error, 0.125).has_value());
  send("c", "x");  // the process is killed now
  open();
  const auto sums = store->spent();
  BOOST_TEST_REQUIRE(sums.has_value());
  const Spent& sum = sums->at({"mutate", "m"});
  BOOST_TEST(sum.calls == 3);
  BOOST_TEST(sum.failed == 2);
  BOOST_TEST(sum.usd == 0.875);
  BOOST_TEST(sum.uncertain_usd == 0.375);
  BOOST_TEST(sum.usage.input == 10 + 7 + 500);
  BOOST_TEST(sum.usage.cached == 20);
  BOOST_TEST(sum.usage.output == 40 + 1000);
}

BOOST_AUTO_TEST_CASE(the_search_writes_beside_it_and_says_what_it_used) {
  const ExchangeId id = send("a", "x");
  BOOST_TEST(writer->step(1.0, [](Step& step) { step.event("note", 0, "between"); }).has_value());
  BOOST_TEST(store->arrived(id, answer("y"), 0.5).has_value());
  BOOST_TEST(writer->step(2.0, [id](Step& step) { step.use_exchange(id, 42); }).has_value());
  const auto record = Record::open(folder.path());
  BOOST_TEST_REQUIRE(record.has_value());
  const auto rows = exchanges_of(*record);
  BOOST_TEST_REQUIRE(rows.size() == 1U);
  BOOST_TEST(rows[0].used_by == 42);
  BOOST_TEST((rows[0].state == ExchangeRow::State::arrived));
  BOOST_TEST(rows[0].usage.cached == 20);
}

BOOST_AUTO_TEST_CASE(a_request_that_is_sent_again_is_kept_once) {
  for (int i = 0; i < 5; ++i) send("a", "the same");
  SQLite::Database db(folder.database().string());
  BOOST_TEST(db.execAndGet("SELECT count(*) FROM requests").getInt() == 1);
  BOOST_TEST(db.execAndGet("SELECT count(*) FROM exchanges").getInt() == 5);
}

BOOST_AUTO_TEST_CASE(what_was_recorded_can_be_replayed) {
  BOOST_TEST(store->arrived(send("a", "x"), answer("one"), 0).has_value());
  send("b", "never answered");
  BOOST_TEST(store->arrived(send("c", "y"), answer("two"), 0).has_value());
  const auto record = Record::open(folder.path());
  const auto all = recorded_exchanges(*record);
  BOOST_TEST_REQUIRE(all.size() == 2U);
  ReplayModel model(all);
  BOOST_TEST(ask_and_wait(model, question("y", "c"))->text == "two");
}

BOOST_AUTO_TEST_CASE(a_run_of_the_first_format_is_read_and_brought_up_to_date) {
  BOOST_TEST(writer->step(1.0, [](Step& step) { step.event("note", 0, "kept"); }).has_value());
  make_old();
  {
    const auto record = Record::open(folder.path());
    BOOST_TEST_REQUIRE(record.has_value(), (record ? "" : record.error().message));
    BOOST_TEST(record->events(10).size() == 1U);
    BOOST_TEST(exchanges_of(*record).empty());
    BOOST_TEST(recorded_exchanges(*record).empty());
  }
  auto again = RecordWriter::open(folder);
  BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().message));
  writer.emplace(std::move(*again));
  open();
  BOOST_TEST(store->arrived(send("a", "x"), answer("y"), 0.5).has_value());
  BOOST_TEST(Record::open(folder.path())->events(10).size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_tools_gave_is_kept_whole_is_read_in_order_and_outlives_damage) {
  ToolOutcome check;
  check.index = 1;
  check.tool = "check";
  check.text = "d1 is right.\nThe device was used.";
  check.device_s = 0.125;
  check.drafts = {
      {"d1", "a source", {{"BLOCK", std::int64_t{64}}, {"LAYOUT", std::string("packed")}}, "parent"}};
  ToolOutcome submit = check;
  submit.tool = "submit";
  submit.drafts.clear();
  submit.handed_over = SubmittedKernel{"a source", {{"BLOCK", std::int64_t{64}}}, "why it helps", 12};
  auto earlier = nlohmann::json::parse(to_body(submit));  // of a version that did not record it
  earlier["handed_over"].erase("from");
  BOOST_TEST(outcome_of_body(earlier.dump()).handed_over->from == 0);
  make_old(2);  // as the version before this one left it
  {
    const auto old = Record::open(folder.path());
    BOOST_TEST_REQUIRE(old.has_value());
    BOOST_TEST(recorded_results(*old, 7).empty());
    BOOST_TEST(tool_use(*old).empty());
  }
  auto again = RecordWriter::open(folder);
  BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().message));
  writer.emplace(std::move(*again));
  BOOST_TEST(writer->step(1.0, [&](Step& step) { step.tool_result(7, 0, check); }).has_value());
  BOOST_TEST_REQUIRE(make_checkpoint(folder, 3).has_value());
  BOOST_TEST(writer->step(2.0, [&](Step& step) { step.tool_result(7, 2, submit); }).has_value());
  writer.reset();
  again = RecordWriter::open(folder, "said to be damaged");
  BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().message));
  writer.emplace(std::move(*again));
  const auto results = recorded_results(writer->record(), 7);
  BOOST_TEST_REQUIRE(results.size() == 2U);
  BOOST_TEST((results.at(0).at(0) == check));
  BOOST_TEST((results.at(2).at(0) == submit));
  BOOST_TEST(recorded_results(writer->record(), 8).empty());
  BOOST_TEST(tool_use(writer->record()).at("check").at("device_s").get<double>() == 0.125);
}

BOOST_AUTO_TEST_CASE(exchanges_newer_than_the_checkpoint_are_saved_from_a_damaged_run) {
  for (const bool old_checkpoint : {false, true}) {
    if (old_checkpoint) {
      make_old();
      BOOST_TEST_REQUIRE(make_checkpoint(folder, 3).has_value());
      auto again = RecordWriter::open(folder);
      BOOST_TEST_REQUIRE(again.has_value());
      writer.emplace(std::move(*again));
      open();
    }
    const ExchangeId before = send("before", "x");
    if (!old_checkpoint) BOOST_TEST_REQUIRE(make_checkpoint(folder, 3).has_value());
    BOOST_TEST(store->arrived(before, answer("one"), 0.5).has_value());
    BOOST_TEST(store->arrived(send("after", "new words"), answer("two"), 0.5).has_value());
    store.reset();
    writer.reset();
    auto again = RecordWriter::open(folder, "said to be damaged");
    BOOST_TEST_REQUIRE(again.has_value(), (again ? "" : again.error().message));
    BOOST_TEST(again->recovery().find("no recorded data was lost") != std::string::npos, again->recovery());
    writer.emplace(std::move(*again));
    open();
    BOOST_TEST(store->find("before", hash_of(question("x")))->has_value());
    BOOST_TEST(store->find("after", hash_of(question("new words")))->has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()
