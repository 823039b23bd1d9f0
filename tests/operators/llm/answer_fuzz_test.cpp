// SPDX-License-Identifier: Apache-2.0
// A small part of what bench-answer-fuzz does.
#include <boost/test/unit_test.hpp>

#include "support/answer_fuzzer.hpp"

using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(answer_fuzz)

BOOST_AUTO_TEST_CASE(a_stream_that_is_cut_loses_nothing_that_can_be_read) {
  std::mt19937_64 random(1);
  for (const RecordedAnswer& answer : recorded_answers()) {
    const std::string whole = answer.whole();
    for (std::size_t at = whole.size() % 5; at <= whole.size(); at += 5) {
      const std::string lost = lost_in(answer.provider, whole.substr(0, at), random);
      BOOST_TEST(lost == "", answer.provider << " cut at " << at << ": " << lost);
    }
  }
}

BOOST_AUTO_TEST_CASE(faults_in_events_and_fields_lose_nothing_that_can_be_read) {
  std::mt19937_64 random(2);
  const std::vector<RecordedAnswer> answers = recorded_answers();
  int lost_ones = 0;
  for (std::size_t i = 0; i < 2000 && lost_ones < 10; ++i) {
    const RecordedAnswer& answer = answers[i % answers.size()];
    const std::string bytes = with_faults(answer, random);
    const std::string lost = lost_in(answer.provider, bytes, random);
    lost_ones += !lost.empty();
    BOOST_TEST(lost == "", answer.provider << ": " << lost << " of\n" << bytes);
  }
}

BOOST_AUTO_TEST_SUITE_END()
