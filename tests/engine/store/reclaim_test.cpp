// SPDX-License-Identifier: Apache-2.0
// A run that is made smaller keeps its history: replay, lineage and resume work as before.
#include "engine/store/reclaim.hpp"

#include <SQLiteCpp/Database.h>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "engine/search/search.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/summary.hpp"
#include "support/contains.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};

struct Grown : ScratchFolder {
  fs::path run = path() / "run";
  Simulation simulation;

  Grown() {
    simulation.samples = 2000;
    const Config config = softmax_config(path() / "config", {"budget.evaluations=400"});
    BOOST_REQUIRE(begin_search(config, run, simulated_runtime(simulation), {}, kNever));
    fs::copy_file(*checkpoints_newest_first(RunFolder(run)).begin(), run / "checkpoints/0000000001.db");
    fs::create_directories(run / "damaged/x");
    fs::copy_file(run / "run.db", run / "damaged/x/run.db");
  }
  Record record() const {
    auto opened = Record::open(run);
    BOOST_REQUIRE(opened);
    return std::move(*opened);
  }
  std::vector<std::string> decisions() const {
    std::vector<std::string> all;
    record().each_decision([&](const DecisionRow& d) {
      all.push_back(std::string(name_of(d.kind)) + std::to_string(d.individual) + d.stream + d.body);
    });
    return all;
  }
  std::vector<IndividualId> line_of_best() const {
    std::vector<IndividualId> ids;
    for (const IndividualRow& row : record().lineage(*record().best())) ids.push_back(row.individual.id);
    return ids;
  }
  void require_replay_agrees() const {
    const auto report = replay(run, simulated_runtime({}));
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    for (const std::string& difference : report->differences) BOOST_ERROR(difference);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(reclaim, Grown)

BOOST_AUTO_TEST_CASE(a_run_becomes_smaller_and_its_history_stays) {
  const auto before = decisions();
  const auto line = line_of_best();
  const auto summary = nlohmann::json(summary_of(record()));
  const IndividualId best = *record().best();
  const auto samples = record().evaluation(best)->workloads.front().samples.size();
  IndividualId dead = 0;  // measured, and among the slowest
  double least = 1e300;
  record().each_individual([&](const IndividualRow& row) {
    if (row.state != IndividualState::measured || row.individual.fitness >= least) return;
    if (row.individual.descent.origin == Origin::seed) return;
    least = row.individual.fitness;
    dead = row.individual.id;
  });
  const Evaluation slow = *record().evaluation(dead);
  BOOST_REQUIRE(slow.workloads.front().samples.size() == 2000);

  const auto done = cultivar::reclaim(RunFolder(run), 1, false);
  BOOST_REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  BOOST_TEST(done->evaluations > 20);
  BOOST_TEST(done->bytes_after - done->damaged_bytes < (done->bytes_before - done->damaged_bytes) / 2);
  BOOST_TEST(done->damaged_bytes > 0u);
  BOOST_TEST(checkpoints_newest_first(RunFolder(run)).size() == 1u);
  BOOST_TEST(damage_of(RunFolder(run).database(), true) == "");
  BOOST_TEST(decisions() == before, boost::test_tools::per_element());
  BOOST_TEST(line_of_best() == line, boost::test_tools::per_element());
  BOOST_TEST(nlohmann::json(summary_of(record())) == summary);
  BOOST_TEST(record().evaluation(best)->workloads.front().samples.size() == samples);
  const Evaluation thin = *record().evaluation(dead);
  BOOST_TEST(thin.workloads.front().samples.empty());
  BOOST_TEST(thin.workloads.front().median_us == slow.workloads.front().median_us);
  BOOST_TEST(thin.workloads.front().q3_us == slow.workloads.front().q3_us);
  require_replay_agrees();

  // Again: there is nothing left to remove but what was moved aside.
  const auto again = cultivar::reclaim(RunFolder(run), 1, true);
  BOOST_REQUIRE(again);
  BOOST_TEST(again->evaluations == 0);
  BOOST_TEST(again->duels == 0);
  BOOST_TEST(!fs::exists(run / "damaged"));

  BOOST_REQUIRE(resume_search(run, {"budget.evaluations=430"}, simulated_runtime(simulation), {}, kNever));
  BOOST_TEST(summary_of(record()).evaluations == 430);
  require_replay_agrees();

  // The database is lost: the checkpoint, which was made anew, has all.
  const auto resumed = decisions();
  fs::remove(run / "run.db");
  BOOST_REQUIRE(RecordWriter::open(RunFolder(run)));
  BOOST_TEST(decisions().size() == resumed.size());
}

BOOST_AUTO_TEST_CASE(a_run_that_is_searched_and_a_damaged_one_are_left_alone) {
  {
    const auto writer = RecordWriter::open(RunFolder(run));
    BOOST_REQUIRE(writer);
    const auto done = cultivar::reclaim(RunFolder(run), 1, false);
    BOOST_REQUIRE(!done);
    BOOST_TEST(checkpoints_newest_first(RunFolder(run)).size() == 2u);
  }
  fs::resize_file(run / "run.db", fs::file_size(run / "run.db") / 2);
  const auto done = cultivar::reclaim(RunFolder(run), 1, true);
  BOOST_REQUIRE(!done);
  BOOST_TEST(contains(done.error().message, "`cultivar resume` restores it first"), done.error().message);
  BOOST_TEST(checkpoints_newest_first(RunFolder(run)).size() == 2u);
  BOOST_TEST(fs::exists(run / "damaged/x/run.db"));
}

BOOST_AUTO_TEST_SUITE_END()
