// SPDX-License-Identifier: Apache-2.0
// Lines of several writers stay whole, and a file that is shared is bounded and never a link.

#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(append_line)

BOOST_AUTO_TEST_CASE(lines_of_several_writers_stay_whole) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "lines";
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&, i] {
      for (int line = 0; line < 50; ++line)
        (void)cultivar::append_line(file, std::string(300, char('a' + i)), 1 << 20);
    });
  for (std::thread& writer : writers) writer.join();
  const std::string text = read_file(file).value();
  int lines = 0;
  for (const std::string_view line : lines_of(text)) {
    ++lines;
    BOOST_TEST(line == std::string(300, line.front()));
  }
  BOOST_TEST(lines == 200);
}

BOOST_AUTO_TEST_CASE(a_full_file_and_whatever_is_no_file_are_errors) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "lines";
  BOOST_TEST(cultivar::append_line(file, "0123456789", 16).has_value());
  const auto full = cultivar::append_line(file, "0123456789", 16);
  BOOST_REQUIRE(!full);
  BOOST_TEST(full.error().message.find("is full") != std::string::npos, full.error().message);
  std::filesystem::create_symlink(file, folder.path() / "link");
  BOOST_TEST(!cultivar::append_line(folder.path() / "link", "x", 1 << 20));
  BOOST_TEST(!cultivar::append_line(folder.path(), "x", 1 << 20));
  BOOST_TEST(read_file(file).value() == "0123456789\n");
}

BOOST_AUTO_TEST_SUITE_END()
