// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/interpreter.hpp"

#include <boost/test/unit_test.hpp>

#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::TemporaryFolder;
using cultivar::testing::write_text;

BOOST_AUTO_TEST_SUITE(interpreter)

BOOST_AUTO_TEST_CASE(an_interpreter_that_is_absent_or_fails_is_reported_with_the_remedy) {
  const auto absent = find_interpreter("/no/such/python3", PythonNeeds::library);
  BOOST_REQUIRE(!absent);
  BOOST_TEST((absent.error().kind == ErrorKind::missing));
  BOOST_TEST(contains(absent.error().message, "the interpreter '/no/such/python3' "), absent.error().message);
  BOOST_TEST(contains(absent.error().message, "evaluation.python"), absent.error().message);
  const auto other = find_interpreter("/bin/false", PythonNeeds::library);
  BOOST_REQUIRE(!other);
  BOOST_TEST(contains(other.error().message, "'/bin/false' failed"), other.error().message);
}

BOOST_AUTO_TEST_CASE(a_real_one_tells_its_path_and_its_library) {
  const auto found = find_interpreter("python3", PythonNeeds::library);
  if (!found) {  // no Python, or none with a shared library
    BOOST_TEST((found.error().kind == ErrorKind::missing));
    return;
  }
  BOOST_TEST(std::filesystem::path(found->executable).is_absolute());
  BOOST_TEST(std::filesystem::is_regular_file(found->library));
  BOOST_TEST(contains(found->library, "libpython3."), found->library);
  BOOST_TEST(found->version.starts_with("3."));
}

BOOST_AUTO_TEST_CASE(one_without_pytorch_is_told_with_the_remedy) {
  const TemporaryFolder folder;  // -S: none of its packages
  write_text(folder / "bare", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
  std::filesystem::permissions(folder / "bare", std::filesystem::perms::owner_all);
  const auto bare = find_interpreter((folder / "bare").string(), PythonNeeds::torch);
  BOOST_REQUIRE(!bare);
  BOOST_TEST((bare.error().kind == ErrorKind::missing));
  BOOST_TEST(contains(bare.error().message, "has no PyTorch"), bare.error().message);
  BOOST_TEST(contains(bare.error().message, "pip install torch numpy"), bare.error().message);
}

BOOST_AUTO_TEST_CASE(a_syntax_error_is_told_with_its_line_and_nothing_is_run) {
  const auto found = find_interpreter("python3", PythonNeeds::library);
  if (!found) return;
  const TemporaryFolder folder;
  const std::string file = (folder / "mine.py").string();
  const auto error_in = [&](const std::string& text) {
    write_text(file, text);
    return syntax_error(*found, file);
  };
  BOOST_TEST(error_in("import no_such_package\nraise SystemExit(3)\n") == "");
  const std::string wrong = error_in("def prepare(workload, tensors):\n    return 1 +\n");
  BOOST_TEST(wrong.starts_with(file + ":2: SyntaxError: "), wrong);
  const std::string indented = error_in("x = 1\n\n  y = 2\n");
  BOOST_TEST(indented.starts_with(file + ":3: IndentationError: "), indented);
  BOOST_TEST(error_in(std::string("x = 1\0\n", 7)).starts_with(file));
  BOOST_TEST(syntax_error(*found, folder / "absent.py") == "");
}

BOOST_AUTO_TEST_SUITE_END()
