// The programs that start in a sandbox find only the system's own libraries there.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "evaluators/system/process.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(programs)

BOOST_AUTO_TEST_CASE(what_starts_in_a_sandbox_loads_only_the_libraries_that_it_calls) {
  for (const char* name : {"cultivar-cell", "cultivar-nvrtc"}) {
    const auto program = std::filesystem::path(CULTIVAR_BIN_DIR) / name;
    const auto answer = run_process({.command = {"ldd", program.string()}}, 30.0);
    BOOST_REQUIRE(answer);
    BOOST_TEST(answer->output.find("libc.so.6") != std::string::npos, answer->output);
    for (const char* library : {"yaml", "tbb", "muparser", "libcrypto", "sqlite", "curl"})
      BOOST_TEST(answer->output.find(library) == std::string::npos, name << " loads " << library);
  }
}

BOOST_AUTO_TEST_SUITE_END()
