// SPDX-License-Identifier: Apache-2.0
// Files that others made: each is read whole or refused at once, whatever it is.
#include "evaluators/system/files.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

struct Folder : TemporaryFolder {
  std::string trouble(const fs::path& file, std::size_t most = 1000) const {
    const auto text = read_unlinked_file(file, most);
    return text ? "none" : text.error().message;
  }
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(files, Folder)

BOOST_AUTO_TEST_CASE(a_regular_file_is_read_whole_up_to_its_limit) {
  const std::string bytes = std::string(200'000, 'x') + std::string("\0\xff\n", 3);
  write_text(path() / "file", bytes);
  BOOST_TEST((read_file(path() / "file").value() == bytes));
  BOOST_TEST((read_file(path() / "file", bytes.size()).value() == bytes));
  BOOST_TEST(holds(trouble(path() / "file"), "has 200003 bytes, but at most 1000 are read"));
  BOOST_TEST(read_file("/proc/self/status").value().starts_with("Name:"));  // tells no size
  BOOST_TEST(!read_file("/proc/self/status", 20));
  BOOST_TEST(holds(trouble(path() / "missing"), "cannot be read"));
}

BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_refused_and_not_waited_for) {
  BOOST_REQUIRE(::mkfifo((path() / "pipe").c_str(), 0600) == 0);
  fs::create_directory(path() / "folder");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (path() / "socket").c_str(), sizeof address.sun_path - 1);
  BOOST_REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  for (const char* name : {"pipe", "folder", "socket", "/dev/zero", "/dev/tty"}) {
    BOOST_TEST(holds(trouble(path() / name), "cannot be read"), trouble(path() / name));
    BOOST_TEST(!read_file(path() / name));
  }
  ::close(listener);
}

BOOST_AUTO_TEST_CASE(a_link_is_followed_only_where_nobody_else_could_have_made_it) {
  write_text(path() / "file", "text");
  fs::create_symlink(path() / "file", path() / "link");
  BOOST_TEST(read_file(path() / "link").value() == "text");
  BOOST_TEST(holds(trouble(path() / "link"), "it is a symbolic link"));
}

BOOST_AUTO_TEST_CASE(a_file_without_an_end_and_one_larger_than_memory_are_refused_by_their_size) {
  write_text(path() / "huge", "");
  fs::resize_file(path() / "huge", std::uintmax_t{1} << 42);  // without any blocks
  BOOST_TEST(holds(trouble(path() / "huge"), "at most 1000 are read"));
  BOOST_TEST(!read_file(path() / "huge"));
}

BOOST_AUTO_TEST_SUITE_END()
