#include "evaluators/system/plain_text.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/verdict/evaluation.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(plain_text)

BOOST_AUTO_TEST_CASE(control_characters_are_spelled_out_and_letters_stay) {
  BOOST_TEST(cultivar::plain_text("a\x1b[31mb\tc\nd\r\ne\rf\x7f") == "a\\x1b[31mb\tc\nd\ne\\x0df\\x7f");
  BOOST_TEST(cultivar::plain_text("\xc2\x9b"
                                  "31m \xc3\xa9 \xe2\x80\xa6") == "\\x9b31m \xc3\xa9 \xe2\x80\xa6");
  BOOST_TEST(cultivar::plain_text(std::string("\0", 1)) == "\\x00");
}

BOOST_AUTO_TEST_CASE(what_turns_the_direction_of_writing_or_shows_nothing_is_spelled_out) {
  BOOST_TEST(cultivar::plain_text("a\xe2\x80\xae"
                                  "b\xe2\x81\xa6 \xd8\x9c\xef\xbb\xbf\xe2\x80\x8b\xe2\x80\xa8.") ==
             "a\\u202eb\\u2066 \\u061c\\ufeff\\u200b\\u2028.");
  const std::string honest =
      "\xe2\x82\xac \xd8\xa7\xd9\x84 \xe4\xb8\xad \xe2\x80\xa6\xe2\x80\x9d \xf0\x9f\x98\x80";
  BOOST_TEST(cultivar::plain_text(honest) == honest);
  BOOST_TEST(cultivar::plain_text("\xe2\x80") == "\xe2\x80");
}

BOOST_AUTO_TEST_CASE(a_line_is_cut_between_characters_and_says_so) {
  BOOST_TEST(plain_line("short\nof two", 100) == "short of two");
  BOOST_TEST(plain_line("abcdef", 4) == "abcd ...");
  BOOST_TEST(plain_line("abc\xc3\xa9", 4) == "abc ...");
  BOOST_TEST(plain_line("abcd", 4) == "abcd");
}

BOOST_AUTO_TEST_CASE(a_word_for_a_shell_is_quoted_where_it_must_be) {
  for (const std::string plain : {"runs/own-2", "a.b_c:1,d=e@f+%"})
    BOOST_TEST(cultivar::shell_word(plain) == plain);
  BOOST_TEST(cultivar::shell_word("") == "''");
  BOOST_TEST(cultivar::shell_word("odd dir") == "'odd dir'");
  BOOST_TEST(cultivar::shell_word("it's; $HOME") == "'it'\\''s; $HOME'");
}

BOOST_AUTO_TEST_CASE(a_rejection_can_be_shown_safely_whatever_the_source_of_its_reason) {
  const Evaluation e = rejection(Stage::compile, "error: \x1b[2J" + std::string(100000, 'x'), "a\x1b]0;b\n");
  BOOST_TEST(e.reason.size() < 1000U);
  BOOST_TEST(e.reason.starts_with("error: \\x1b[2Jxxx"));
  BOOST_TEST(e.diagnostics == "a\\x1b]0;b\n");
}

BOOST_AUTO_TEST_SUITE_END()
