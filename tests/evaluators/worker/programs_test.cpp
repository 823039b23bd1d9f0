// SPDX-License-Identifier: Apache-2.0
// The programs that start in a sandbox find only the system's own libraries there.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "support/command.hpp"

using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(programs)

BOOST_AUTO_TEST_CASE(what_starts_in_a_sandbox_loads_only_the_libraries_that_it_calls) {
  for (const char* name : {"cultivar-cell", "cultivar-nvrtc"}) {
    const auto program = std::filesystem::path(CULTIVAR_BIN_DIR) / name;
    const CommandResult answer = RunningCommand({"ldd", program.string()}).wait();
    BOOST_TEST(answer.out.find("libc.so.6") != std::string::npos, answer.out + answer.err);
    for (const char* library : {"yaml", "tbb", "muparser", "libcrypto", "sqlite", "curl"})
      BOOST_TEST(answer.out.find(library) == std::string::npos, name << " loads " << library);
  }
}

BOOST_AUTO_TEST_SUITE_END()
