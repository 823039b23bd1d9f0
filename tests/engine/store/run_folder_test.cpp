// SPDX-License-Identifier: Apache-2.0
// What a folder may hold that becomes a run.
#include "engine/store/run_folder.hpp"

#include <boost/test/unit_test.hpp>

#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_FIXTURE_TEST_SUITE(run_folder, TemporaryFolder)

BOOST_AUTO_TEST_CASE(what_a_search_left_that_was_killed_at_its_beginning_is_unused) {
  const RunFolder run(path() / "run");
  BOOST_TEST(!run.is_unused());  // it is not there
  std::filesystem::create_directories(run.path());
  BOOST_TEST(run.is_unused());
  write_text(run.path() / "search.log.1", "");
  BOOST_TEST(run.is_unused());
  write_text(run.tasks() / "softmax" / "task.yaml", "");
  BOOST_TEST(!run.is_unused());  // a user's own folder
  write_text(run.lock(), "7\n");
  write_text(run.path() / "run.db.new-journal", "");
  std::filesystem::create_directories(run.checkpoints());
  std::filesystem::create_directories(run.submissions());
  BOOST_TEST(run.is_unused());
  write_text(run.checkpoints() / "1.db", "");
  BOOST_TEST(!run.is_unused());  // of a run whose database is missing
  std::filesystem::remove(run.checkpoints() / "1.db");
  write_text(run.path() / "mine.txt", "");
  BOOST_TEST(!run.is_unused());
  std::filesystem::remove(run.path() / "mine.txt");
  write_text(run.database(), "");
  BOOST_TEST(!run.is_unused());
}

BOOST_AUTO_TEST_SUITE_END()
