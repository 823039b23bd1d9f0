// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/sandbox.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(sandbox)

BOOST_AUTO_TEST_CASE(bubblewrap_that_fails_without_a_word_is_an_obstacle_with_words) {
  const TemporaryFolder folder;
  write_text(folder / "bwrap", "#!/bin/sh\nexit 7\n", true);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  const Sandbox silent;
  write_text(folder / "bwrap", "#!/bin/sh\necho no user namespaces >&2\nexit 7\n", true);
  const Sandbox talking;
  ::setenv("PATH", path.c_str(), 1);
  BOOST_TEST(!silent.usable());
  BOOST_TEST(contains(silent.obstacle(), "exited with 7"), silent.obstacle());
  BOOST_TEST(talking.obstacle() == "no user namespaces");
}

BOOST_AUTO_TEST_SUITE_END()
