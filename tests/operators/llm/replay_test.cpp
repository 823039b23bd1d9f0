// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/replay.hpp"

#include <boost/test/unit_test.hpp>

#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

RecordedExchange exchange(const std::string& call, const std::string& asked, const std::string& said) {
  RecordedExchange e;
  e.call = call;
  e.model = "m";
  e.request = question(asked, call);
  e.answer.text = said;
  e.answer.model = "model-x";
  e.answer.usage.output = 7;
  return e;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(replay)

BOOST_AUTO_TEST_CASE(what_is_written_out_reads_back_the_same) {
  RecordedExchange e = exchange("agent/1/0", "hello \xE2\x82\xAC", "text\nof two lines");
  e.request.tools.push_back({"compile", "does", {{"type", "object"}}});
  e.request.tool_choice = ToolChoice::required;
  e.request.temperature = 0.25;
  e.request.stop = {"END"};
  e.request.effort = Effort::medium;
  ChatMessage assistant{ChatRole::assistant, "well"};
  assistant.tool_calls.push_back({"c1", "compile", "{bad"});
  assistant.carried = {{"anthropic", {1, 2}}};
  ChatMessage tool{ChatRole::tool, "it failed"};
  tool.tool_call_id = "c1";
  tool.tool_failed = tool.stable = true;
  e.request.messages.push_back(assistant);
  e.request.messages.push_back(tool);
  e.answer.tool_calls.push_back({"c2", "check", "{}"});
  e.answer.stop = StopReason::tool_calls;
  e.answer.usd = 0.5;
  e.answer.carried = {{"x", 1}};
  const TemporaryFolder folder;
  write_text(folder / "r.jsonl", to_line(e) + "\n" + to_line(exchange("b", "x", "y")));
  const auto read = read_exchanges(folder / "r.jsonl");
  BOOST_TEST_REQUIRE(read.has_value(), (read ? "" : read.error().message));
  BOOST_TEST_REQUIRE(read->size() == 2U);
  BOOST_TEST(hash_of(read->at(0).request) == hash_of(e.request));
  BOOST_TEST(to_line(read->at(0)) == to_line(e));
}

BOOST_AUTO_TEST_CASE(anything_in_a_request_changes_its_hash_but_not_the_call_s_name) {
  const std::string hash = hash_of(question("a", "x"));
  BOOST_TEST(hash == hash_of(question("a", "y")));
  BOOST_TEST(hash != hash_of(question("b", "x")));
  ChatRequest other = question("a");
  other.max_output_tokens = 999;
  BOOST_TEST(hash != hash_of(other));
  other = question("a");
  other.messages[0].stable = true;
  BOOST_TEST(hash != hash_of(other));
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_named_with_its_line) {
  const TemporaryFolder folder;
  write_text(folder / "r.jsonl", to_line(exchange("a", "x", "y")) + "{\"call\": 3}\n");
  const auto read = read_exchanges(folder / "r.jsonl");
  BOOST_TEST_REQUIRE(!read.has_value());
  BOOST_TEST(read.error().message.find("r.jsonl:2:") != std::string::npos);
  BOOST_TEST(!read_exchanges(folder / "none.jsonl").has_value());
}

BOOST_AUTO_TEST_CASE(recorded_answers_are_given_by_request_and_call) {
  ReplayModel model({exchange("a", "x", "first"), exchange("b", "x", "second"), exchange("c", "y", "third")});
  BOOST_TEST(ask_and_wait(model, question("x", "b"))->text == "second");  // by its call
  BOOST_TEST(ask_and_wait(model, question("x", "other"))->text == "first");
  BOOST_TEST(ask_and_wait(model, question("x", "other"))->text == "first");  // the last one, again
  BOOST_TEST(ask_and_wait(model, question("y"))->usage.output == 7);
}

BOOST_AUTO_TEST_CASE(by_call_a_dialogue_continues_with_the_answers_of_the_dialogue_it_began_with) {
  std::vector<RecordedExchange> told;
  for (const char* call : {"agent/4/0", "agent/9/0", "agent/4/1", "agent/9/1", "agent/9/2"}) {
    RecordedExchange exchange;
    exchange.call = call;
    exchange.answer.text = std::string("of ") + call;
    told.push_back(exchange);
  }
  ReplayModel model(told, true);
  const auto said = [&](const std::string& call) { return ask_and_wait(model, question("x", call))->text; };
  BOOST_TEST(said("agent/9/0") == "of agent/9/0");
  BOOST_TEST(said("agent/2/0") == "of agent/4/0");  // none is called so: the next one
  BOOST_TEST(said("agent/9/1") == "of agent/9/1");
  BOOST_TEST(said("agent/2/1") == "of agent/4/1");
  BOOST_TEST(said("agent/9/2") == "of agent/9/2");
  const ChatResult none = ask_and_wait(model, question("x", "agent/11/0"));
  BOOST_TEST_REQUIRE(!none.has_value());
  BOOST_TEST(none.error().message.find("a longer recording is needed") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_unknown_request_is_a_clear_error) {
  ReplayModel model({exchange("mutate/1/0", "x", "first")});
  const ChatResult miss = ask_and_wait(model, question("z", "mutate/1/0"));
  BOOST_TEST_REQUIRE(!miss.has_value());
  BOOST_TEST((miss.error().kind == ChatError::Kind::no_recording));
  BOOST_TEST(miss.error().message.find("another request") != std::string::npos, miss.error().message);
  BOOST_TEST(miss.error().message.find("`match: call`") != std::string::npos, miss.error().message);
  const ChatResult near = ask_and_wait(model, question("z", "mutate/1/1"));
  BOOST_TEST(near.error().message.find("mutate/1/0") != std::string::npos, near.error().message);
}

BOOST_AUTO_TEST_CASE(a_recording_is_damaged_in_our_words) {
  const TemporaryFolder folder;
  for (const std::string& text :
       {std::string("no JSON\n"), std::string(300'000, '['), std::string("{}\n"), std::string()}) {
    write_text(folder / "bad.jsonl", text);
    const auto read = read_exchanges(folder / "bad.jsonl");
    BOOST_TEST_REQUIRE(!read.has_value());
    const std::string& words = read.error().message;
    BOOST_TEST(words.find("bad.jsonl") != std::string::npos, words);
    BOOST_TEST(words.find("export RUN --answers") != std::string::npos, words);
    BOOST_TEST(words.find("json.exception") == std::string::npos, words);
    BOOST_TEST(words.size() < 500U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
