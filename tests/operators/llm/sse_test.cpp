// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/sse.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace cultivar;

namespace {

std::vector<SseEvent> read(const std::string& bytes, std::size_t piece, std::size_t limit = 1000,
                           bool* whole = nullptr) {
  SseReader reader(limit);
  std::vector<SseEvent> events;
  bool good = true;
  for (std::size_t at = 0; good && at < bytes.size(); at += piece)
    good = reader.feed(std::string_view(bytes).substr(at, piece), [&](const SseEvent& event) {
      events.push_back(event);
      return true;
    });
  if (whole) *whole = good;
  return events;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sse)

BOOST_AUTO_TEST_CASE(events_are_the_same_wherever_the_bytes_are_torn) {
  const std::string bytes =
      "\xEF\xBB\xBF: a comment\n\nevent: one\ndata: {\"a\": \"\xE2\x82\xAC \xF0\x9F\x98\x80\"}\r\n\r\n"
      "data:two\rdata\rdata:  lines\r\rid: 7\nretry: 5\ndata: last\n\ndata: never ended";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const auto events = read(bytes, piece);
    BOOST_TEST_REQUIRE(events.size() == 3U, "in pieces of " << piece);
    BOOST_TEST(events[0].name == "one");
    BOOST_TEST(events[0].data == "{\"a\": \"\xE2\x82\xAC \xF0\x9F\x98\x80\"}");
    BOOST_TEST(events[1].name == "");
    BOOST_TEST(events[1].data == "two\n\n lines");
    BOOST_TEST(events[2].data == "last");
  }
}

BOOST_AUTO_TEST_CASE(a_line_without_end_stops_at_the_limit) {
  bool whole = true;
  BOOST_TEST(read("data: " + std::string(2000, 'x'), 7, 1000, &whole).empty());
  BOOST_TEST(!whole);
}

BOOST_AUTO_TEST_CASE(many_short_lines_of_one_event_stop_at_the_limit_too) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += "data: 0123456789\n";
  bool whole = true;
  read(bytes, 64, 1000, &whole);
  BOOST_TEST(!whole);
}

BOOST_AUTO_TEST_SUITE_END()
