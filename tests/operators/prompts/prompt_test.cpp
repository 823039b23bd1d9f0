// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/prompt.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/system/error.hpp"

using namespace cultivar;

namespace {

const std::vector<std::string> kSlots{"task", "source", "notes"};

std::string complaint(const std::string& text) {
  try {
    PromptTemplate(text, "my.md", kSlots);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no complaint";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(prompt)

BOOST_AUTO_TEST_CASE(pieces_fill_their_slots_in_order_and_empty_sections_vanish) {
  const PromptTemplate t(
      "# Task\n{{task}}\n{{#notes}}\n# Notes\n{{notes}}\n{{/notes}}\n{{^source}}\nnone\n{{/source}}\nend\n",
      "t.md", kSlots);
  BOOST_TEST(t.render({{"task", "attention"}}, 1000).text == "# Task\nattention\n\nnone\nend\n");
  BOOST_TEST(t.render({{"notes", "one\n"}, {"task", "a"}, {"notes", "two\n"}, {"source", "s"}}, 1000).text ==
             "# Task\na\n# Notes\none\n\ntwo\n\nend\n");
}

BOOST_AUTO_TEST_CASE(what_is_put_in_is_never_read_as_template_and_never_escaped) {
  const PromptTemplate t("{{source}}|{{{source}}}", "t.md", kSlots);
  const std::string code = "a < b && c > \"d\"; {{task}} {{#notes}} {{/nonsense}} {{=<% %>=}}";
  BOOST_TEST(t.render({{"source", code}, {"task", "secret"}}, 1000).text == code + "|" + code);
}

BOOST_AUTO_TEST_CASE(the_budget_takes_the_least_useful_first_and_never_what_must_be_sent) {
  const PromptTemplate t("{{task}}{{notes}}{{source}}", "t.md", kSlots);
  const std::string thirty(30, 'x');
  const std::vector<Piece> pieces{{"task", thirty, 0, "task"},
                                  {"notes", thirty, 2, "first note"},
                                  {"notes", thirty, 2, "second note"},
                                  {"source", thirty, 1, "source"}};
  BOOST_TEST(t.render(pieces, 1000).left_out.empty());
  const Prompt some = t.render(pieces, 31);
  BOOST_TEST(some.left_out == std::vector<std::string>{"second note"}, boost::test_tools::per_element());
  BOOST_TEST(some.tokens <= 31);
  const std::vector<std::string> all{"second note", "first note", "source"};
  const Prompt least = t.render(pieces, 1);
  BOOST_TEST(least.left_out == all, boost::test_tools::per_element());
  BOOST_TEST(least.text == thirty);
}

BOOST_AUTO_TEST_CASE(bad_templates_are_named_with_line_and_nearest_slot) {
  BOOST_TEST(complaint("fine {{task}} {{! a remark }}") == "no complaint");
  const std::string unknown = complaint("one\n{{taks}}\n");
  BOOST_TEST(unknown.find("my.md:2: there is no slot 'taks'") != std::string::npos, unknown);
  BOOST_TEST(unknown.find("'task'") != std::string::npos, unknown);
  BOOST_TEST(complaint("{{#task}} open").find("my.md") != std::string::npos);
  BOOST_TEST(complaint("{{> /etc/passwd}}").find("my.md:1") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
