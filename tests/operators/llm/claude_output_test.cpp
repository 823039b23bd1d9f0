// SPDX-License-Identifier: Apache-2.0
// What programs print: the JSON of `claude -p` in all its forms, and codes for terminals.
#include "operators/llm/claude_output.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

const std::string kResult =
    R"({"type": "result", "subtype": "success", "is_error": false, "result": "done \"x\" }", "session_id": "s1",)"
    R"( "total_cost_usd": 0.08, "usage": {"input_tokens": 9, "cache_read_input_tokens": 40, "output_tokens": 3}})";
const std::string kMessage =
    R"({"type": "assistant", "message": {"id": "m1", "content": [], "usage": {"input_tokens": 7, "output_tokens": 2}}})";

}  // namespace

BOOST_AUTO_TEST_SUITE(claude_output)

BOOST_AUTO_TEST_CASE(the_result_is_found_wherever_it_is) {
  for (const std::string& output :
       {kResult, "[{\"type\": \"system\"}, " + kMessage + ", " + kResult + "]",
        kMessage + "\n" + kResult + "\n", "Warning: {settings}\n{not JSON\n" + kResult + "\nbye\n",
        "\x1b[0m\x1b]0;title\a" + kResult + "\x1b[K\n", "[\n  " + kMessage + ",\n  " + kResult + "\n]\n"}) {
    const ClaudeOutput read = read_claude_output(output);
    BOOST_TEST(read.complete, output);
    BOOST_TEST(!read.failed);
    BOOST_TEST(read.text.value_or("") == "done \"x\" }");
    BOOST_TEST(read.session == "s1");
    BOOST_TEST(read.usd.value_or(0.0) == 0.08);
    BOOST_TEST(read.usage.value_or(Usage{}).total() == 52);
  }
}

BOOST_AUTO_TEST_CASE(a_failure_has_its_cost) {
  const ClaudeOutput read = read_claude_output(
      R"({"type": "result", "subtype": "error_max_turns", "is_error": false, "total_cost_usd": 0.5, "usage": {"output_tokens": 9}})");
  BOOST_TEST(read.complete);
  BOOST_TEST(read.failed);
  BOOST_TEST(read.text.value_or("") == "error_max_turns");
  BOOST_TEST(read.usd.value_or(0.0) == 0.5);
  BOOST_TEST(read.usage.value_or(Usage{}).output == 9);
}

BOOST_AUTO_TEST_CASE(without_a_result_the_messages_say_what_was_used) {
  const ClaudeOutput read =
      read_claude_output(kMessage + "\n" + kMessage + "\n{\"type\": \"result\", \"is_er");
  BOOST_TEST(!read.complete);
  BOOST_TEST(read.usage.value_or(Usage{}).total() == 9);  // one message, which came twice
  BOOST_TEST(!read_claude_output("Hello").usage.has_value());
  BOOST_TEST(!read_claude_output("{}").complete);
}

BOOST_AUTO_TEST_CASE(brackets_without_end_are_read_a_bounded_number_of_times) {
  std::string open;
  for (int i = 0; i < 500'000; ++i) open += "{\n";
  BOOST_TEST(!read_claude_output(open).complete);
}

BOOST_AUTO_TEST_CASE(codes_for_terminals_are_no_text) {
  BOOST_TEST(without_terminal_codes("\x1b[0mIDEA: x\x1b[K\n\x1b[38;5;1m+\x1b[m") == "IDEA: x\n+");
  BOOST_TEST(without_terminal_codes("\x1b]8;;http://a\x1b\\link\x1b]8;;\a.") == "link.");
  BOOST_TEST(without_terminal_codes("\x1b(B\x1b=a\x1b") == "a");
  BOOST_TEST(without_terminal_codes("\x1b]0;no end\nkept \xE2\x82\xAC") == "\nkept \xE2\x82\xAC");
  BOOST_TEST(without_terminal_codes("a[0m\\x1b[0m") == "a[0m\\x1b[0m");
}

BOOST_AUTO_TEST_SUITE_END()
