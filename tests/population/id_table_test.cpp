#include "population/id_table.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(id_table)

BOOST_AUTO_TEST_CASE(each_key_has_the_first_id_that_was_added) {
  IdTable table;
  BOOST_TEST(!table.find(7).has_value());
  // Keys that differ only in high bits, and that fall into the same slots.
  const auto key = [](std::uint64_t i) { return i % 2 == 0 ? i << 40U : i * 1024; };
  for (std::uint32_t i = 1; i <= 5000; ++i) table.add(key(i), i);
  for (std::uint32_t i = 1; i <= 5000; ++i) table.add(key(i), i + 1);
  for (std::uint32_t i = 1; i <= 5000; ++i) BOOST_REQUIRE(table.find(key(i)) == i);
  BOOST_TEST(!table.find(key(5001)).has_value());
  BOOST_TEST(!table.find(0).has_value());
  table.add(0, 9);
  BOOST_TEST(table.find(0).value() == 9U);
}

BOOST_AUTO_TEST_SUITE_END()
