// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/cores.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

// How many cores a process has left that was told to stay on `count`; 100 more if they were not its own
// before.
int cores_after(int count) {
  const std::vector<int> before = usable_cores();
  const pid_t child = ::fork();
  if (child == 0) {
    stay_on_cores(count);
    const std::vector<int> after = usable_cores();
    const bool own = std::includes(before.begin(), before.end(), after.begin(), after.end());
    ::_exit(static_cast<int>(std::min<std::size_t>(after.size(), 99)) + (own ? 0 : 100));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cores)

BOOST_AUTO_TEST_CASE(a_process_stays_on_as_many_cores_as_it_is_told) {
  BOOST_TEST(cores_after(1) == 1);
}

BOOST_AUTO_TEST_CASE(more_cores_than_there_are_change_nothing) {
  BOOST_TEST(cores_after(5000) == static_cast<int>(std::min<std::size_t>(usable_cores().size(), 99)));
}

BOOST_AUTO_TEST_SUITE_END()
