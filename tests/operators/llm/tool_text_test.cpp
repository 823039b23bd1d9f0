// SPDX-License-Identifier: Apache-2.0
// Tools as text: how they are shown, and how calls are read.
#include <boost/test/unit_test.hpp>

#include "operators/llm/tool_text.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;

namespace {

const std::vector<ToolSpec> kTools{
    {"check",
     "Checks a kernel.",
     {{"type", "object"}, {"properties", {{"variant", {}}, {"edit", {}}, {"source", {}}}}}},
    {"diff", "Compares.", {{"type", "object"}, {"properties", {{"a", {}}, {"b", {}}}}}}};

std::vector<ToolCall> calls(const std::string& text) {
  const auto found = tool_calls_in_text(text, kTools);
  BOOST_REQUIRE_MESSAGE(found, (found ? "" : found.error()));
  return *found;
}

std::string refusal(const std::string& text) {
  const auto found = tool_calls_in_text(text, kTools);
  return found ? "none" : found.error();
}

const std::string kEdit =
    "<<<<<<< SEARCH\nint a;\n=======\nint b;  // \"quotes\" and \\ too\n>>>>>>> REPLACE\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(tool_text)

BOOST_AUTO_TEST_CASE(calls_are_read_in_order_with_the_code_below_them) {
  const auto found = calls(
      "I will try it.\n\n```tool\n{\"tool\": \"check\",\n \"arguments\": {\"variant\": \"12\"}}\n```\n\n" +
      kEdit +
      "\nThen the difference:\n~~~ tool\n{\"tool\": \"diff\", \"arguments\": {\"a\": \"12\", \"b\": "
      "\"d1\"}}\n~~~\n"
      "```tool\n{\"tool\": \"check\"}\n```\n```cpp\n/*--- cultivar\nname: x\n---*/\n```\n");
  BOOST_REQUIRE(found.size() == 3U);
  BOOST_TEST(found[0].id == "call_1");
  BOOST_TEST(found[0].name == "check");
  BOOST_TEST(found[0].parsed()->at("variant") == "12");
  BOOST_TEST(contains(found[0].parsed()->at("edit").get<std::string>(), kEdit));
  BOOST_TEST(found[1].parsed()->dump() == R"({"a":"12","b":"d1"})");
  BOOST_TEST(contains(found[2].parsed()->at("source").get<std::string>(), "name: x"));
  BOOST_TEST(!found[2].parsed()->contains("edit"));
}

BOOST_AUTO_TEST_CASE(what_stands_inside_of_code_calls_nothing) {
  BOOST_TEST(calls("Nothing to call here: `tool`.\n").empty());
  BOOST_TEST(calls("````md\n```tool\n{\"tool\": \"check\"}\n```\n````\n").empty());
  BOOST_TEST(calls("<<<<<<< SEARCH\n```tool\n=======\n>>>>>>> REPLACE\n").empty());
  const auto found =
      calls("```tool\n{\"tool\": \"check\"}\n```\n<<<<<<< SEARCH\n```tool\n=======\nx\n>>>>>>> REPLACE\n");
  BOOST_REQUIRE(found.size() == 1U);
  BOOST_TEST(contains(found[0].parsed()->at("edit").get<std::string>(), "```tool"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_with_its_line) {
  const auto block = [](const std::string& object) { return "One.\n\n```tool\n" + object + "\n```\n"; };
  const std::string broken = refusal(block("{\"tool\": \"check\""));
  BOOST_TEST(contains(broken, "on line 3: it is not valid JSON"), broken);
  BOOST_TEST(!contains(broken, "json.exception"), broken);
  BOOST_TEST(contains(refusal(block("[1]")), "it must be {\"tool\""));
  BOOST_TEST(
      contains(refusal(block("{\"tool\": \"chek\"}")), "there is no tool \"chek\" (did you mean 'check'?"));
  BOOST_TEST(contains(refusal(block("{\"name\": \"check\", \"tool\": \"check\"}")), "no key \"name\""));
  BOOST_TEST(contains(refusal(block("{\"tool\": \"check\", \"arguments\": 3}")), "must be an object"));
  BOOST_TEST(contains(refusal("```tool\n{\"tool\": \"check\"}\n"), "line 1: its block is not closed"));
  BOOST_TEST(contains(refusal(block("{\"tool\": \"diff\"}") + kEdit), "`diff` has no argument edit"));
  BOOST_TEST(contains(refusal(block("{\"tool\": \"check\", \"arguments\": {\"edit\": \"x\"}}") + kEdit),
                      "\"edit\" is given both in its arguments and below it"));
}

BOOST_AUTO_TEST_CASE(a_prompt_for_readers_shows_the_tools_and_how_they_are_called) {
  ChatRequest request;
  request.system.push_back({"You write kernels.", true});
  request.messages.push_back({ChatRole::user, "Here is one."});
  const std::string without = plain_prompt(request);
  BOOST_TEST(without == "You write kernels.\n\nHere is one.\n");
  request.tools = kTools;
  const std::string prompt = plain_prompt(request);
  BOOST_TEST(contains(prompt, "## Tool `check`\n\nChecks a kernel.\n\n```json\n{"));
  BOOST_TEST(prompt.ends_with("Here is one.\n"));
  // What it shows as an example can be read.
  const std::size_t at = prompt.find("```tool\n"), end = prompt.find("```\n", at + 3) + 4;
  BOOST_TEST(contains(refusal(prompt.substr(at, end - at)), "no tool \"NAME\""));
  request.tool_choice = ToolChoice::none;
  BOOST_TEST(plain_prompt(request) == without);
}

BOOST_AUTO_TEST_SUITE_END()
