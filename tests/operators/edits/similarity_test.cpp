// SPDX-License-Identifier: Apache-2.0
// Which sources and changes count as the same, and which as different.
#include "operators/edits/similarity.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

const std::string kParent = R"(/*--- cultivar
name: rows
about: "one row at a time"
tunables:
  BLOCK: {values: [16, 32], default: 16}
---*/
// a comment
extern "C" void rows(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += expf(x[i]);
  for (int i = 0; i < n; ++i) y[i] = expf(x[i]) / sum;
}
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

SourceChange change_to(const std::string& child, const std::string& parent = kParent) {
  return change_between(bare_lines(parent), bare_lines(child));
}

const std::string kSum = "  for (int i = 0; i < n; ++i) sum += expf(x[i]);\n";
const std::string kHoisted = R"(  float sums[8] = {};
  for (int i = 0; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) sums[j] += expf(x[i + j]);
  for (float each : sums) sum += each;
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(similarity)

BOOST_AUTO_TEST_CASE(layout_comments_and_the_name_of_a_kernel_do_not_count) {
  std::string same = with(kParent, "name: rows\n", "name: other_rows\n");
  same = with(same, "one row at a time", "hello");
  same = with(same, "// a comment\n", "/* another\n   one */\n\n");
  same = with(same, "  float sum = 0.0f;", "float  sum=0.0f ; // zero");
  BOOST_TEST(bare_lines(same) == bare_lines(kParent), boost::test_tools::per_element());
  BOOST_TEST(change_to(same).empty());
  // The manifest counts, although it is a comment, and so does what looks like a comment in a string.
  BOOST_TEST(!change_to(with(kParent, "[16, 32]", "[16, 64]")).empty());
  BOOST_TEST(bare_lines("f(\"// a\");\n") != bare_lines("f(\"// b\");\n"));
  BOOST_TEST(bare_lines("/*--- cultivar\nname: x").empty());  // no end
}

BOOST_AUTO_TEST_CASE(the_same_change_elsewhere_in_other_words_is_nearly_the_same) {
  const SourceChange change = change_to(with(kParent, kSum, kHoisted));
  BOOST_TEST(nearly_same(change, change));
  // Of a parent that differs elsewhere, with another name for a variable of one line.
  const std::string cousin = with(kParent, "/ sum;", "* (1.0f / sum);");
  const std::string renamed =
      with(kHoisted, "for (float each : sums) sum += each;", "for (float s : sums) sum += s;");
  BOOST_TEST(nearly_same(change, change_to(with(cousin, kSum, renamed), cousin)));
}

BOOST_AUTO_TEST_CASE(another_number_or_another_idea_is_different) {
  const SourceChange change = change_to(with(kParent, kSum, kHoisted));
  std::string sixteen = kHoisted;
  for (std::size_t at = sixteen.find('8'); at != std::string::npos; at = sixteen.find('8', at + 2))
    sixteen.replace(at, 1, "16");
  BOOST_TEST(!nearly_same(change, change_to(with(kParent, kSum, sixteen))));
  BOOST_TEST(!nearly_same(change, change_to(with(kParent, "/ sum;", "* (1.0f / sum);"))));
  BOOST_TEST(!nearly_same(change, {}));
  BOOST_TEST(!nearly_same({}, {}));
}

BOOST_AUTO_TEST_SUITE_END()
