#include "engine/export/tables.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(tables)

BOOST_AUTO_TEST_CASE(a_note_stays_in_its_cell_and_is_nothing_but_text) {
  IndividualRow row;
  row.individual.id = 7;
  row.individual.descent.op = "mutate";
  row.individual.descent.note = "a | b <img src=x> [l](u) `c` \xE2\x80\xAE&";
  const std::string text = lineage_text({row}, "GB/s");
  BOOST_TEST(
      text.find("a \\| b &lt;img src=x&gt; \\[l\\](u) \\`c\\` \\\\u202e&amp; |\n") != std::string::npos,
      text);
}

BOOST_AUTO_TEST_CASE(the_gain_of_a_step_allows_for_a_device_that_became_slower) {
  IndividualRow first, second;
  first.individual.fitness = 100.0;
  second.individual.fitness = 88.0;
  second.pace = 0.8;
  const std::string text = lineage_text({first, second}, "GB/s");
  BOOST_TEST(text.find("| +10.0 % |") != std::string::npos, text);
  BOOST_TEST(text.find("device's speed changed") != std::string::npos, text);
}

BOOST_AUTO_TEST_SUITE_END()
