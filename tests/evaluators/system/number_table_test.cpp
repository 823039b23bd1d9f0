// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/number_table.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(number_table)

BOOST_AUTO_TEST_CASE(each_number_is_found_by_what_it_stands_for) {
  // Hashes that differ only in high bits, only in middle bits, and of which three are equal.
  const auto key = [](std::uint32_t i) {
    return i % 2 == 0 ? std::uint64_t{i} << 40U : std::uint64_t{i} * 1024;
  };
  const auto hash_of = [&](std::uint32_t i) { return key(i / 3); };
  const auto found = [&](const NumberTable& table, std::uint32_t i) {
    return table.find(hash_of(i), [&](std::uint32_t number) { return number == i; });
  };
  NumberTable table;
  BOOST_TEST(!found(table, 7).has_value());
  for (std::uint32_t i = 0; i < 5000; ++i) table.add(i, hash_of);
  for (std::uint32_t i = 0; i < 5000; ++i) BOOST_REQUIRE(found(table, i) == i);
  BOOST_TEST(!found(table, 5000).has_value());
  BOOST_TEST(!found(table, 500'000).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
