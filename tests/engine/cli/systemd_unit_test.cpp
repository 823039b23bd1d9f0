// SPDX-License-Identifier: Apache-2.0
// The unit file of a search, as systemd reads it.
#include "engine/cli/detached_search.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/system/process.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(systemd_unit)

BOOST_AUTO_TEST_CASE(a_word_of_a_unit_keeps_every_character) {
  BOOST_TEST(systemd_word("plain") == "\"plain\"");
  BOOST_TEST(systemd_word(R"(100 % of "$x" \n)") == R"("100 %% of \"$$x\" \\n")");
}

BOOST_AUTO_TEST_CASE(a_unit_begins_or_resumes_the_search_and_systemd_accepts_it) {
  const TemporaryFolder folder;
  SystemdUnit unit{"my search",
                   "/bin/true",
                   folder.path(),
                   folder / "run's 100% $HOME",
                   folder / "search.yaml",
                   {"budget.wall=7d"},
                   "/usr/bin:/bin",
                   {"ANTHROPIC_API_KEY"},
                   folder / "a cache"};
  const std::string text = text_of(unit);
  for (const char* part :
       {"resume", "--trust", "run.db", "--set budget.wall=7d", "search.log", "KillMode=mixed",
        "ANTHROPIC_API_KEY", "Restart=on-abnormal", "Environment=\"CULTIVAR_CACHE="})
    BOOST_TEST(contains(text, part), part << " is in\n" << text);
  unit.keys.clear();
  const std::string without_keys = text_of(unit);
  BOOST_TEST(!contains(without_keys, "EnvironmentFile"));
  if (find_program("systemd-analyze").empty()) return;
  write_text(folder / "cultivar-test.service", without_keys);
  const auto verified =
      run_command({"systemd-analyze", "verify", "--man=no", (folder / "cultivar-test.service").string()});
  BOOST_TEST(!contains(verified.err, "cultivar-test.service:"), verified.err);
}

BOOST_AUTO_TEST_SUITE_END()
