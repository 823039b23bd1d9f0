// SPDX-License-Identifier: Apache-2.0
// Records whose values or pages were changed or cut: each command says which file it is and what to do.
#include <SQLiteCpp/Database.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "engine/store/checkpoint.hpp"
#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

struct Damaged : SimulatedRun {
  Damaged() { search({"budget.evaluations=20"}); }
  // A copy of the run with this change.
  fs::path changed(const std::string& sql) const {
    const fs::path copy = path() / "changed";
    fs::remove_all(copy);
    fs::copy(run, copy, fs::copy_options::recursive);
    if (!sql.empty()) SQLite::Database(copy / "run.db", SQLite::OPEN_READWRITE).exec(sql);
    return copy;
  }
  void require_remedy(const fs::path& copy, const std::vector<std::string>& command,
                      const std::string& what) {
    const CommandResult result = cultivar_in(path(), command);
    const std::string when = what + ": " + command.front() + ": " + result.err;
    BOOST_TEST(result.exit == 1, when);
    BOOST_TEST(contains(result.err, (copy / "run.db").string()), when);
    BOOST_TEST(contains(result.err, "resume"), when);
    BOOST_TEST(!contains(result.err, "json.exception"), when);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(damaged_record, Damaged)

BOOST_AUTO_TEST_CASE(damaged_values_are_said_with_the_file_and_the_remedy) {
  for (const char* sql :
       {"UPDATE individuals SET configuration = '{\"a\":'", "UPDATE individuals SET parents = '7'",
        "UPDATE evaluations SET body = '[]'", "UPDATE individuals SET state = 7",
        "UPDATE duels SET report = '{'", "UPDATE meta SET value = 'x' WHERE key = 'best'"}) {
    const fs::path copy = changed(sql);
    require_remedy(copy, {"show", copy.string(), "best"}, sql);
    require_remedy(copy, {"show", copy.string() + ":best"}, sql);
  }
  for (const char* sql : {"UPDATE decisions SET body = '7'", "UPDATE individuals SET configuration = 'null'",
                          "UPDATE individuals SET state = 7"}) {
    const fs::path copy = changed(sql);
    require_remedy(copy, {"replay", copy.string()}, sql);
  }
}

BOOST_AUTO_TEST_CASE(a_cut_file_is_said_with_the_file_and_the_remedy) {
  const auto size = fs::file_size(run / "run.db");
  for (const auto kept : {std::uintmax_t{0}, std::uintmax_t{100}, size / 2}) {
    const fs::path copy = changed("");
    fs::resize_file(copy / "run.db", kept);
    for (const char* command : {"show", "replay"}) {
      std::vector<std::string> words{command, copy.string()};
      if (words.front() == "show") words.emplace_back("best");
      require_remedy(copy, words, std::to_string(kept) + " bytes");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_resume_that_ends_at_once_says_what_it_restored) {
  SQLite::Database((run / "run.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE meta SET value = '7201' WHERE key = 'elapsed_s'");
  // The budget is in the record: one resume sets it, the next one finds it spent.
  BOOST_TEST((resumed({"budget.wall=2h1m", "budget.evaluations=21"}).stop == Outcome::Stop::evaluations));
  SQLite::Database((run / "run.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE meta SET value = '7261' WHERE key = 'elapsed_s'");
  BOOST_REQUIRE(make_checkpoint(RunFolder(run), 3));
  fs::resize_file(run / "run.db", 5000);
  for (const char* file : {"run.db-wal", "run.db-shm"}) fs::remove(run / file);
  const CommandResult result = cultivar_in(path(), {"resume", run.string()});
  const std::string said = result.out + result.err;
  for (const char* words : {"run.db was damaged", "restored checkpoint", "To continue:", "--set budget.wall=",
                            "the wall-clock budget of 2 h 1 min is exhausted"})
    BOOST_TEST(contains(said, words), said);
  BOOST_TEST(told("restored checkpoint") == 1);
}

BOOST_AUTO_TEST_SUITE_END()
