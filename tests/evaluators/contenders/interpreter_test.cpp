#include "evaluators/contenders/interpreter.hpp"

#include <boost/test/unit_test.hpp>

#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::TemporaryFolder;

BOOST_AUTO_TEST_SUITE(interpreter)

BOOST_AUTO_TEST_CASE(an_interpreter_that_is_absent_or_fails_is_reported_with_the_remedy) {
  const auto absent = find_interpreter("/no/such/python3");
  BOOST_REQUIRE(!absent);
  BOOST_TEST((absent.error().kind == ErrorKind::missing));
  BOOST_TEST(contains(absent.error().message, "the interpreter '/no/such/python3' "), absent.error().message);
  BOOST_TEST(contains(absent.error().message, "evaluation.python"), absent.error().message);
  const auto other = find_interpreter("/bin/false");
  BOOST_REQUIRE(!other);
  BOOST_TEST(contains(other.error().message, "'/bin/false' failed"), other.error().message);
}

BOOST_AUTO_TEST_CASE(a_real_one_tells_its_path_and_its_library) {
  const auto found = find_interpreter("python3");
  if (!found) {  // no Python, or none with a shared library
    BOOST_TEST((found.error().kind == ErrorKind::missing));
    return;
  }
  BOOST_TEST(std::filesystem::path(found->executable).is_absolute());
  BOOST_TEST(std::filesystem::is_regular_file(found->library));
  BOOST_TEST(contains(found->library, "libpython3."), found->library);
  BOOST_TEST(found->version.starts_with("3."));
}

BOOST_AUTO_TEST_SUITE_END()
