// SPDX-License-Identifier: Apache-2.0
#include "evaluators/coverage/coverage.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace cultivar;

namespace {

std::vector<std::byte> counters(std::initializer_list<std::size_t> ran) {
  std::vector<std::byte> bytes(16);
  for (const std::size_t at : ran) bytes.at(at) = std::byte{1};
  return bytes;
}

const BlocksRun::Macros small{"D=64", "TILE=8"}, large{"D=256", "TILE=8"};

BlocksRun two_specialisations() {
  BlocksRun blocks;
  for (const auto& macros : {small, large})
    blocks.expect(macros, {{3, "variant.cpp", 10, 12}, {5, "variant.cpp", 13, 13}, {9, "tile.hpp", 4, 4}});
  return blocks;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(coverage)

BOOST_AUTO_TEST_CASE(a_block_ran_if_any_checked_run_ran_it) {
  BlocksRun blocks = two_specialisations();
  BOOST_TEST(blocks.note(small, counters({3})) == 1u);
  BOOST_TEST(blocks.note(small, counters({3, 5})) == 1u);
  BOOST_TEST(!blocks.complete(small));
  BOOST_TEST(blocks.unreached(small).size() == 1u);
  BOOST_TEST(blocks.note(small, counters({9})) == 1u);
  BOOST_TEST(blocks.complete(small));
  BOOST_TEST(!blocks.complete());
  BOOST_TEST((blocks.incomplete() == std::vector<BlocksRun::Macros>{large}));
  const Coverage coverage = blocks.coverage();
  BOOST_TEST(coverage.blocks == 6);
  BOOST_TEST(coverage.ran == 3);
  BOOST_TEST(coverage.specialisations == 2);
}

BOOST_AUTO_TEST_CASE(neighboring_lines_are_told_together_with_the_macros_that_differ) {
  BlocksRun blocks = two_specialisations();
  blocks.note(small, counters({3, 5, 9}));
  blocks.note(large, counters({9}));
  const Coverage coverage = blocks.coverage();
  BOOST_REQUIRE(coverage.not_run.size() == 1u);
  BOOST_TEST(coverage.not_run[0].blocks == 2);
  BOOST_TEST(coverage.text() ==
             "coverage: 4 of 6 blocks ran under a check, in 2 specialisations\n"
             "  line 10 to 13, specialisation D=256: never ran under a check\n");
  const Coverage back = nlohmann::json::parse(nlohmann::json(coverage).dump()).get<Coverage>();
  BOOST_TEST((back.not_run == coverage.not_run));
  BOOST_TEST(back.ran == 4);
}

BOOST_AUTO_TEST_CASE(counters_that_are_missing_are_blocks_that_did_not_run) {
  BlocksRun blocks = two_specialisations();
  BOOST_TEST(blocks.note(small, {}) == 0u);
  BOOST_TEST(blocks.note({"unknown"}, counters({3})) == 0u);
  BOOST_TEST(blocks.coverage().ran == 0);
}

BOOST_AUTO_TEST_CASE(a_violation_is_read_and_nothing_in_it_is_believed) {
  std::vector<std::byte> bytes(violation_bytes);
  BOOST_TEST(!violation_in(bytes, {}));
  BOOST_TEST(!violation_in({}, {}));
  const std::int64_t words[] = {1, 12, 9};
  std::memcpy(bytes.data(), words, sizeof words);
  const std::string text = "/src/tile.hpp\n'float [8]'";
  std::memcpy(bytes.data() + sizeof words, text.data(), text.size());
  BOOST_REQUIRE(violation_in(bytes, {}));
  BOOST_TEST(violation_in(bytes, {})->text() == "line 12 of tile.hpp: the index 9 is outside 'float [8]'");
  // Without an end, and with what moves a terminal's cursor.
  std::fill(bytes.begin() + sizeof words, bytes.end(), std::byte{0x1b});
  BOOST_TEST(violation_in(bytes, {})->text().find('\x1b') == std::string::npos);
  bytes[0] = std::byte{77};
  BOOST_TEST(!violation_in(bytes, {}));
}

BOOST_AUTO_TEST_SUITE_END()
