// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/frame.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <array>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <thread>

using namespace cultivar;
using Kind = FrameTrouble::Kind;

namespace {

struct Loop {
  std::array<int, 2> ends = open();
  FrameStream stream{ends[0], ends[1]};
  ~Loop() {
    ::close(ends[0]);
    close_writer();
  }
  static std::array<int, 2> open() {
    std::array<int, 2> pair{-1, -1};
    BOOST_REQUIRE(::pipe(pair.data()) == 0);
    return pair;
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  void raw(std::string_view bytes) {
    BOOST_REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
};

Clock::time_point soon() {
  return Clock::now() + std::chrono::milliseconds(50);
}
Clock::time_point later() {
  return Clock::now() + std::chrono::seconds(20);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(frame)

BOOST_AUTO_TEST_CASE(what_is_written_is_read_even_when_it_is_larger_than_a_pipe) {
  Loop loop;
  const nlohmann::json small = {{"a", 1}}, large = std::string(3 << 20, 'x');
  std::thread writer([&] {
    BOOST_TEST(loop.stream.write(small, later()).has_value());
    BOOST_TEST(loop.stream.write(large, later()).has_value());
    BOOST_TEST(loop.stream.write(small, later()).has_value());
  });
  BOOST_TEST((loop.stream.read(later()).value() == small));
  BOOST_TEST((loop.stream.read(later()).value() == large));
  BOOST_TEST((loop.stream.read(later()).value() == small));
  writer.join();
}

BOOST_AUTO_TEST_CASE(a_frame_that_arrives_byte_by_byte_is_whole) {
  Loop loop;
  std::thread writer([&] {
    for (const char c : std::string_view("9\n{\"a\": 12}\n")) loop.raw({&c, 1});
  });
  const auto message = loop.stream.read(later());
  writer.join();
  BOOST_REQUIRE(message);
  BOOST_TEST((*message)["a"] == 12);
}

BOOST_AUTO_TEST_CASE(garbage_is_refused_and_quoted) {
  for (const std::string text :
       {"hello world, no frame", "12x\n{}\n", "\n\n", "-5\n", "2\n{]\n", "2\n{}x", "999999999999999"}) {
    Loop loop;
    loop.raw(text);
    const auto message = loop.stream.read(soon());
    BOOST_REQUIRE(!message);
    BOOST_TEST((message.error().kind == Kind::garbage), text << ": " << message.error().message);
  }
}

BOOST_AUTO_TEST_CASE(an_oversized_frame_is_refused_before_it_is_read) {
  Loop loop;
  loop.raw("67108865\n");
  const auto message = loop.stream.read(soon());
  BOOST_REQUIRE(!message);
  BOOST_TEST((message.error().kind == Kind::too_big));
  BOOST_TEST((loop.stream.write(std::string(frame_limit, 'x'), soon()).error().kind == Kind::too_big));
}

BOOST_AUTO_TEST_CASE(silence_times_out_and_a_closed_stream_says_so) {
  Loop loop;
  BOOST_TEST((loop.stream.read(soon()).error().kind == Kind::timed_out));
  loop.raw("10\n{\"a\"");
  BOOST_TEST((loop.stream.read(soon()).error().kind == Kind::timed_out));
  loop.close_writer();
  const auto message = loop.stream.read(soon());
  BOOST_TEST((message.error().kind == Kind::closed));
  BOOST_TEST(message.error().message.find("middle") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(writing_to_a_closed_pipe_is_an_error_and_not_a_signal) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  FrameStream stream(-1, ends[1]);
  BOOST_TEST((stream.write({{"a", 1}}, soon()).error().kind == Kind::closed));
  ::close(ends[1]);
}

BOOST_AUTO_TEST_CASE(a_reader_that_never_reads_costs_the_writer_its_deadline_only) {
  Loop loop;
  BOOST_TEST((loop.stream.write(std::string(1 << 20, 'x'), soon()).error().kind == Kind::timed_out));
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text_are_replaced) {
  Loop loop;
  BOOST_TEST(loop.stream.write(std::string("caf\xe9"), soon()).has_value());
  BOOST_TEST(loop.stream.read(soon()).value() == "caf\xef\xbf\xbd");
}

BOOST_AUTO_TEST_SUITE_END()
