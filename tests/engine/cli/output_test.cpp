// SPDX-License-Identifier: Apache-2.0
// Lines, tables and sources fit into a terminal of any width, and no word is broken.
#include "engine/cli/output.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

using namespace cultivar;

namespace {

std::set<std::string> words_in(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

std::size_t widest(const std::string& text) {
  std::istringstream in(text);
  std::size_t most = 0;
  for (std::string line; std::getline(in, line);) most = std::max(most, columns_of(line));
  return most;
}

Table timings() {
  Table table({"workload", "median", "q1 - q3", "samples", "GFLOPS", "vs attention_eigen"});
  table.row({"B1_H8_Sq640_D64_f32", "12.41 ms", "11.78 ms - 13.88 ms", "30", "67.62", "1.042x"});
  table.row({"B1_H8_Hkv2_Sq1024_D64_causal_f32", "15.58 ms", "14.17 ms - 19.31 ms", "30", "68.93", "1.23x"});
  return table;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(output)

BOOST_AUTO_TEST_CASE(lines_break_at_spaces) {
  BOOST_TEST(wrapped("  key   one two three four", 18, "        ") == "  key   one two\n        three four");
  BOOST_TEST(wrapped("averylongword b", 5, "") == "averylongword\nb");
  BOOST_TEST(wrapped("see /a/path/of/twenty/c now", 22, "          ") ==
             "see\n   /a/path/of/twenty/c\n          now");
  BOOST_TEST(between_words("one two three", 11) == "one two ...");
  BOOST_TEST(between_words("one two", 7) == "one two");
}

BOOST_AUTO_TEST_CASE(cells_break_at_spaces) {
  Table table({"name", "reason", "count"});
  table.row({"alpha", "the kernel wrote beyond the end of its output", "12"});
  BOOST_TEST(table.text("", 36) ==
             "name   reason                  count\n"
             "alpha  the kernel wrote           12\n"
             "       beyond the end of its\n"
             "       output\n");
  BOOST_TEST(table.text("", std::string::npos).find("beyond the end of its output     12") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_width_breaks_a_word_or_a_number_from_its_unit) {
  const std::string whole = timings().text("  ", std::string::npos);
  BOOST_TEST(timings().text("  ", 80) ==
             "  workload\n"
             "      median              q1 - q3  samples  GFLOPS  vs attention_eigen\n"
             "  B1_H8_Sq640_D64_f32\n"
             "    12.41 ms  11.78 ms - 13.88 ms       30   67.62              1.042x\n"
             "  B1_H8_Hkv2_Sq1024_D64_causal_f32\n"
             "    15.58 ms  14.17 ms - 19.31 ms       30   68.93               1.23x\n");
  for (std::size_t columns = 40; columns < 140; ++columns) {
    const std::string text = timings().text("  ", columns);
    BOOST_TEST(widest(text) <= columns, text);
    for (const char* word :
         {"B1_H8_Hkv2_Sq1024_D64_causal_f32", "12.41 ms", "13.88 ms", "1.042x", "attention_eigen"})
      BOOST_TEST(text.find(word) != std::string::npos, text);
  }
  BOOST_TEST(timings().text("  ", 200) == whole);
}

BOOST_AUTO_TEST_CASE(a_source_is_continued_with_a_mark_at_a_space) {
  const std::string source =
      "  float value = first_number + second_number;\nint_without_any_space_in_it_at_all;\n";
  BOOST_TEST(source_lines(source, std::string::npos) == source);
  BOOST_TEST(source_lines(source, 24) ==
             "  float value = \\\n      first_number + \\\n      second_number;\n"
             "int_without_any_space_in_it_at_all;\n");
  for (std::size_t columns = 24; columns < 60; ++columns) {
    std::set<std::string> words = words_in(source_lines(source, columns));
    words.erase("\\");
    BOOST_TEST((words == words_in(source)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
