// SPDX-License-Identifier: Apache-2.0
// What agents outside of a search made is seen by all conversations about the run.

#include <boost/test/unit_test.hpp>

#include "engine/store/record_kernels.hpp"
#include "engine/store/tool_results.hpp"
#include "support/search_parts.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(conversations)

BOOST_AUTO_TEST_CASE(each_conversation_has_a_file_of_its_own_from_its_first_line_on) {
  const ScratchFolder scratch;
  const RunFolder run(scratch.path());
  ConversationLog first(run), second(run);
  BOOST_TEST(conversations_in(run).empty());
  BOOST_TEST(first.name().empty());
  BOOST_REQUIRE(first.add("one"));
  BOOST_REQUIRE(second.add("two"));
  BOOST_REQUIRE(first.add("three"));
  BOOST_TEST(first.name() == "m1");
  BOOST_TEST(second.name() == "m2");
  BOOST_TEST(conversations_in(run).size() == 2U);
  BOOST_TEST((lines_of_conversation(run, "m1") == std::vector<std::string>{"one", "three"}));
  BOOST_TEST(lines_of_conversation(run, "../run").empty());
  BOOST_TEST(lines_of_conversation(run, "m3").empty());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_an_error_and_links_are_not_followed) {
  const ScratchFolder scratch;
  const RunFolder run(scratch.path());
  ConversationLog log(run);
  BOOST_REQUIRE(log.add("one"));
  const auto full = log.add(std::string(17 << 20, 'x'));
  BOOST_REQUIRE(!full);
  BOOST_TEST(full.error().message.find("is full (at most 16 MiB)") != std::string::npos,
             full.error().message);
  fs::remove(run.conversations() / "m1.jsonl");
  fs::create_symlink("/etc/passwd", run.conversations() / "m1.jsonl");
  BOOST_TEST(!log.add("two"));
  BOOST_TEST(lines_of_conversation(run, "m1").empty());
}

BOOST_AUTO_TEST_CASE(drafts_are_listed_and_read_whatever_else_the_files_hold) {
  SearchParts parts;
  const Record& record = parts.writer.record();
  ToolOutcome made;
  made.tool = "compile";
  made.text = "d1 (softmax)\nIt compiles";
  made.drafts = {{"d1", "the source", {{"BLOCK", std::int64_t{64}}}, "3"}, {"d2", "another", {}, "d1"}};
  ConversationLog log(parts.folder);
  BOOST_REQUIRE(log.add("[[[[[{"));
  BOOST_REQUIRE(log.add("{\"tool\": 7}"));
  BOOST_REQUIRE(log.add(to_body(made)));
  const std::vector<KernelRow> rows = drafts_in(record, "");
  BOOST_TEST_REQUIRE(rows.size() == 2U);
  BOOST_TEST(rows[0].id == "m1.d2");
  BOOST_TEST((rows[0].parents == std::vector<std::string>{"3"}));
  BOOST_TEST(rows[1].note == "compile: It compiles");
  BOOST_TEST(drafts_in(record, "m1").empty());  // its own
  BOOST_TEST(kernel_in(record, "m1.d1").value().source == "the source");
  BOOST_TEST(!kernel_in(record, "m1.d3"));
  BOOST_TEST(!kernel_in(record, "m2.d1"));
}

BOOST_AUTO_TEST_SUITE_END()
