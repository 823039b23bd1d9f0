// SPDX-License-Identifier: Apache-2.0
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

BOOST_AUTO_TEST_CASE(bytes_that_are_not_utf8_are_spelled_out_where_utf8_is_needed) {
  const std::string honest =
      "\xe2\x82\xac \xd8\xa7 \xe4\xb8\xad \xf0\x9f\x98\x80 \xed\x9f\xbf \xef\xbf\xbd \xf4\x8f\xbf\xbd";
  BOOST_TEST(utf8_text(honest) == honest);
  BOOST_TEST(utf8_text("a\xff\x9b[2J\x1b[m") == "a\\xff\\x9b[2J\\x1b[m");
  BOOST_TEST(utf8_text("\xe2\x82") == "\\xe2\\x82");
  // A surrogate, forms that are too long, what is beyond Unicode and what XML does not allow.
  for (const std::string bad : {"\xed\xa0\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
                                "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xef\xbf\xbe", "\xef\xbf\xbf"})
    BOOST_TEST(utf8_text(bad).find_first_not_of("\\x0123456789abcdef") == std::string::npos, utf8_text(bad));
}

BOOST_AUTO_TEST_CASE(each_format_gets_nothing_but_text) {
  BOOST_TEST(xml_text("<a b=\"c\" d='e'>&\x1b\xff") ==
             "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\\x1b\\xff");
  BOOST_TEST(cpp_comment("one\n#include </etc/passwd>\r\ntwo\rthree") ==
             "one #include </etc/passwd> two\\x0dthree");
  BOOST_TEST(cpp_comment("goes on \\ ") == "goes on \\ .");
  BOOST_TEST(cpp_comment("goes on ?"
                         "?/") ==
             "goes on ?"
             "?/.");
  BOOST_TEST(in_quotes("a\"; run('x');\n\\") == "a\\\"; run(\\'x\\'); \\\\.");
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
