// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/edits.hpp"

#include <boost/test/unit_test.hpp>
#include <ctime>
#include <random>

using namespace cultivar;

namespace {

const std::string kSource =
    "/*--- cultivar\n"
    "name: k\n"
    "tunables:\n"
    "  TILE: {values: [1, 2], default: 1}\n"
    "---*/\n"
    "void f() {\n"
    "  for (int i = 0; i < 4; ++i) {\n"
    "    a[i] = 0;\n"
    "    b[i] = 1;\n"
    "  }\n"
    "}\n"
    "void g() {\n"
    "  a[i] = 0;\n"
    "}\n";

std::string block(const std::string& search, const std::string& replace) {
  return "<<<<<<< SEARCH\n" + search + "=======\n" + replace + ">>>>>>> REPLACE\n";
}

// The new source, or "refused: " and the message.
std::string edited(const std::string& answer, const std::string& source = kSource) {
  const auto edit = find_edit(answer);
  if (!edit) return "refused: " + edit.error().words;
  const auto result = apply_edit(source, *edit);
  return result ? *result : "refused: " + result.error().words;
}

std::string with(std::string source, const std::string& a, const std::string& b) {
  return source.replace(source.find(a), a.size(), b);
}

void check_refused(const std::string& answer, const std::vector<std::string>& parts) {
  const std::string words = edited(answer);
  BOOST_TEST(words.starts_with("refused: "), words);
  for (const std::string& part : parts) BOOST_TEST(words.find(part) != std::string::npos, words);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(edits)

BOOST_AUTO_TEST_CASE(a_block_replaces_what_it_names_and_nothing_else) {
  BOOST_TEST(edited("I unroll it.\n```\n" + block("    b[i] = 1;\n", "    b[i] = 2;\n    c[i] = 3;\n") +
                    "```\nDone.\n") == with(kSource, "    b[i] = 1;\n", "    b[i] = 2;\n    c[i] = 3;\n"));
}

BOOST_AUTO_TEST_CASE(manifests_are_edited_like_code_and_several_blocks_see_the_source_as_it_was) {
  const std::string expected = with(with(kSource, "[1, 2]", "[1, 2, 4]"), "    b[i] = 1;\n", "");
  BOOST_TEST(edited(block("    b[i] = 1;\n", "") + block("  TILE: {values: [1, 2], default: 1}\n",
                                                         "  TILE: {values: [1, 2, 4], default: 1}\n")) ==
             expected);
}

BOOST_AUTO_TEST_CASE(indentation_may_be_off_by_a_constant_and_is_mended_in_the_replacement) {
  BOOST_TEST(edited(block("a[i] = 0;\nb[i] = 1;\n", "if (i) {\n  b[i] = 5;\n}\n")) ==
             with(kSource, "    a[i] = 0;\n    b[i] = 1;\n", "    if (i) {\n      b[i] = 5;\n    }\n"));
  BOOST_TEST(edited(block("      b[i] = 1;\n    }\n", "      b[i] = 7;\n    }\n")) ==
             with(kSource, "b[i] = 1;", "b[i] = 7;"));
  // Not by different amounts.
  check_refused(block("  a[i] = 0;\n    b[i] = 1;\n", "x\n"), {"not in the source"});
}

BOOST_AUTO_TEST_CASE(what_matches_letter_for_letter_is_taken_before_what_is_indented_otherwise) {
  BOOST_TEST(edited(block("  a[i] = 0;\n", "  a[i] = 9;\n")) ==
             with(kSource, "\n  a[i] = 0;\n}", "\n  a[i] = 9;\n}"));
}

BOOST_AUTO_TEST_CASE(an_ambiguous_block_is_refused_with_its_places) {
  check_refused(block("a[i] = 0;\n", "a[i] = 9;\n"), {"2 places", "lines 8, 13"});
}

BOOST_AUTO_TEST_CASE(a_block_that_does_not_match_is_reported_with_the_nearest_lines) {
  check_refused(block("    a[i] = 0;\n    b[i] = 2;\n", "x\n"),
                {"Block 1 (line 1 of your answer)", "Nearest is line 8", "yours:\n  |     b[i] = 2;",
                 "line 9 of the source:\n  |     b[i] = 1;"});
  check_refused(block("nothing like it\n", "x\n"), {"None of its lines"});
}

BOOST_AUTO_TEST_CASE(overlapping_empty_and_idle_blocks_are_refused) {
  check_refused(block("    a[i] = 0;\n    b[i] = 1;\n", "x\n") + block("    b[i] = 1;\n", "y\n"),
                {"Blocks 1 and 2 change the same lines (line 9"});
  check_refused(block("", "x\n"), {"no SEARCH lines"});
  check_refused(block("\n", "x\n"), {"no SEARCH lines"});
  check_refused(block("    b[i] = 1;\n", "    b[i] = 1;\n"), {"changes nothing"});
}

BOOST_AUTO_TEST_CASE(a_whole_source_is_taken_from_the_last_fence_that_has_a_manifest) {
  const std::string fresh = with(kSource, "name: k", "name: l");
  BOOST_TEST(edited("First I thought\n```\n" + kSource + "```\nbut this is better:\n```cpp\n" + fresh +
                    "```\n" + "Run it so:\n```sh\nmake\n```\n") == fresh);
  BOOST_TEST(edited("\n" + fresh) == fresh);
  check_refused("```\n" + kSource + "```\n", {"equals the one that you were given"});
}

BOOST_AUTO_TEST_CASE(answers_without_an_edit_or_cut_off_are_refused) {
  check_refused("It cannot be made faster.", {"has no edit"});
  check_refused("", {"has no edit"});
  check_refused("<<<<<<< SEARCH\n    b[i] = 1;\n=======\n", {"not closed", "cut off"});
  check_refused("<<<<<<< SEARCH\n    b[i] = 1;\n" + block("    b[i] = 1;\n", "x\n"),
                {"not closed before the next"});
  check_refused("```\n" + kSource, {"not closed by ```"});
  check_refused("```\n" + with(kSource, "k", "z") + "```\n" + block("    b[i] = 1;\n", "x\n"),
                {"Send only one of them"});
  BOOST_TEST(!find_edit(std::string(2000, 'x'), 1000));
}

BOOST_AUTO_TEST_CASE(line_ends_and_missing_last_newlines_do_not_matter) {
  BOOST_TEST(edited("<<<<<<< SEARCH\r\n    b[i] = 1;\r\n=======\n    b[i] = 3;\n>>>>>>> REPLACE") ==
             with(kSource, "b[i] = 1;", "b[i] = 3;"));
  BOOST_TEST(edited(block("last\n", "end\n"), "first\nlast") == "first\nend\n");
}

// Sources that consist of only one repeated line, and blocks of only that line: a comparison of all pairs
// would never finish.
BOOST_AUTO_TEST_CASE(what_repeats_itself_without_end_is_refused_at_once_and_in_few_words) {
  const auto times = [](const std::string& line, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line;
    return text;
  };
  const std::string source = times("//\n", 300'000), deeper = times("  //\n", 150'000);
  const std::clock_t begun = std::clock();  // processor time: the machine may be busy
  const std::string many = edited(block(times("//\n", 150'000), "q\n"), source);
  BOOST_TEST(many.find("more than 5 places (lines 1, 2, 3, 4, 5, ...)") != std::string::npos, many);
  for (const std::string& last : {std::string("y;\n"), std::string(" //\n"), std::string("\t//\n")})
    for (const std::string& text : {source, deeper}) {
      const std::string words = edited(block(times("//\n", 100'000) + last, "q\n"), text);
      BOOST_TEST(words.starts_with("refused: "));
      BOOST_TEST(words.size() < 1000U);
    }
  // Alike but for tabs and spaces.
  const std::string tabs = edited(block(times(" //\n", 50'000) + "\t//\n", "q\n"), times(" //\n", 150'000));
  BOOST_TEST(tabs.find("tabs and spaces") != std::string::npos, tabs);
  std::string blocks;
  for (int i = 0; i < 1000; ++i) blocks += block("a\n", "b\n");
  BOOST_TEST(edited(blocks, source).find("1000 blocks, but at most 200") != std::string::npos);
  BOOST_TEST(std::clock() - begun < 30 * CLOCKS_PER_SEC);
}

BOOST_AUTO_TEST_CASE(lines_that_differ_only_in_indentation_are_distinguished) {
  check_refused(block("a[i] = 0;\n  b[i] = 1;\n", "x\n"),
                {"Nearest is line 8, where 2 of 2", "yours:\n  |   b[i]"});
}

// Whatever lines are changed, blocks that quote them with enough context give exactly that change.
BOOST_AUTO_TEST_CASE(random_changes_come_out_as_they_were_meant) {
  std::mt19937 random(7);
  const auto draw = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::string> lines;
    const int count = 6 + draw(30);
    for (int i = 0; i < count; ++i)
      lines.push_back(std::string(2 * draw(3), ' ') + "line " + std::to_string(i) + ";\n");
    std::string source, expected, answer;
    for (const auto& line : lines) source += line;
    for (int i = 0; i < count;) {
      const int size = std::min(1 + draw(3), count - i);
      std::string old, fresh;
      for (int j = i; j < i + size; ++j) old += lines[static_cast<std::size_t>(j)];
      const bool change = draw(3) == 0;
      for (int j = 0; change && j < draw(4); ++j) fresh += "fresh " + std::to_string(draw(100)) + ";\n";
      if (change) answer = draw(2) == 0 ? answer + block(old, fresh) : block(old, fresh) + answer;
      expected += change ? fresh : old;
      i += size;
    }
    if (answer.empty()) continue;
    BOOST_TEST_REQUIRE(edited(answer, source) == expected);
  }
}

BOOST_AUTO_TEST_CASE(a_headers_lines_are_edited_like_the_main_files_and_a_whole_source_may_have_headers) {
  const std::string both =
      kSource + "//// file: a.hpp ////\n#pragma once\nint a;\n//// file: b.hpp ////\n#pragma once\nint b;\n";
  std::string changed = both;
  changed.replace(changed.find("int b;"), 6, "int c;");
  BOOST_TEST(edited(block("int b;\n", "int c;\n"), both) == changed);
  // The same line in two headers is meant only with one around it.
  const std::string twice = edited(block("#pragma once\n", ""), both);
  BOOST_TEST(twice.find("occur in 2 places") != std::string::npos, twice);
  BOOST_TEST(edited(block("//// file: b.hpp ////\n#pragma once\n", "//// file: b.hpp ////\n"), both)
                 .find("////\nint b;") != std::string::npos);
  BOOST_TEST(edited("```cpp\n" + both + "```\n") == both);
}

BOOST_AUTO_TEST_SUITE_END()
