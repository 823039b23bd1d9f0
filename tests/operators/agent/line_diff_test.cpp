// SPDX-License-Identifier: Apache-2.0
#include "operators/edits/similarity.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(line_diff)

BOOST_AUTO_TEST_CASE(equal_texts_have_no_difference) {
  BOOST_TEST(cultivar::line_diff("a\nb\n", "a\nb\n") == "");
  BOOST_TEST(cultivar::line_diff("", "") == "");
}

BOOST_AUTO_TEST_CASE(a_changed_line_stands_between_three_lines_of_context) {
  BOOST_TEST(cultivar::line_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n") ==
             "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

BOOST_AUTO_TEST_CASE(changes_far_apart_are_two_hunks_and_near_ones_are_one) {
  const auto hunks = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("@@ -", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  std::string before, near, far;
  for (int i = 0; i < 40; ++i) {
    before += std::to_string(i) + "\n";
    near += (i == 10 || i == 16 ? "x" : "") + std::to_string(i) + "\n";
    far += (i == 10 || i == 30 ? "x" : "") + std::to_string(i) + "\n";
  }
  BOOST_TEST(hunks(cultivar::line_diff(before, near)) == 1u);
  BOOST_TEST(hunks(cultivar::line_diff(before, far)) == 2u);
}

BOOST_AUTO_TEST_CASE(lines_put_in_and_taken_out_are_the_fewest) {
  BOOST_TEST(cultivar::line_diff("a\nb\nc\n", "a\nx\nb\nc\n") == "@@ -1,3 +1,4 @@\n a\n+x\n b\n c\n");
  BOOST_TEST(cultivar::line_diff("a\nb\nc\n", "a\nc\n") == "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
  BOOST_TEST(cultivar::line_diff("", "a\n") == "@@ -0,0 +1,1 @@\n+a\n");
}

BOOST_AUTO_TEST_CASE(texts_too_large_for_the_shortest_way_come_out_as_one_change) {
  std::string before, after;
  for (int i = 0; i < 5000; ++i) {
    before += "a" + std::to_string(i) + "\n";
    after += "b" + std::to_string(i) + "\n";
  }
  const std::string text = cultivar::line_diff(before, after);
  BOOST_TEST(text.starts_with("@@ -1,5000 +1,5000 @@\n-a0\n"));
}

BOOST_AUTO_TEST_SUITE_END()
