// SPDX-License-Identifier: Apache-2.0
// A log of the database that was lost is noticed, and the newest of all sources is restored.
#include "engine/store/witness.hpp"

#include <SQLiteCpp/Database.h>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "engine/search/search.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/store/record.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/summary.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/scripted_search.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};

Simulation slow() {
  Simulation simulation;
  simulation.evaluate_s = 0.02;
  return simulation;
}

// A run of a real search that was killed: its files as they were between two steps.
struct Killed : ScratchFolder {
  fs::path run = path() / "run";
  std::int64_t evaluations = 0;

  // Copies the run while it is being searched, at this number of evaluations, with a checkpoint made then
  // or, if `checkpoint_at` is smaller, earlier.
  void search(std::int64_t checkpoint_at, std::int64_t killed_at) {
    const fs::path live = path() / "live";
    const Config config = softmax_config(path() / "config", {"budget.evaluations=60", "checkpoint.every=1h"});
    std::atomic<bool> stop{false};
    bool made = false;
    SearchCallbacks callbacks;
    callbacks.progress = [&](const Progress& progress) {
      if (progress.evaluations >= checkpoint_at && !made) {
        made = true;
        BOOST_REQUIRE(make_checkpoint(RunFolder(live), 3));
      }
      if (progress.evaluations < killed_at || stop) return;
      evaluations = progress.evaluations;
      fs::copy(live, run, fs::copy_options::recursive);
      stop = true;
    };
    BOOST_REQUIRE(begin_search(config, live, simulated_runtime(slow()), callbacks, stop));
    BOOST_REQUIRE(fs::exists(run / "run.db-wal"));
    fs::remove(run / "run.db-shm");
  }
  std::string resumed() {
    auto writer = RecordWriter::open(RunFolder(run));
    BOOST_REQUIRE_MESSAGE(writer, (writer ? "" : writer.error().message));
    return writer->recovery();
  }
  std::int64_t judged() const { return summary_of(*Record::open(run)).evaluations; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(witness, Killed)

BOOST_AUTO_TEST_CASE(a_kill_alone_loses_nothing_and_nothing_is_said) {
  search(5, 20);
  BOOST_TEST(Record::open(run)->lost_steps() == "");
  BOOST_TEST(resumed().empty());
  BOOST_TEST(judged() == evaluations);
}

BOOST_AUTO_TEST_CASE(who_only_reads_a_record_whose_log_is_gone_is_told_and_changes_nothing) {
  search(12, 20);
  fs::remove(run / "run.db-wal");
  const std::string before = read_text(run / "run.db");
  const Summary summary = summary_of(*Record::open(run));
  BOOST_TEST(contains(summary.lost, "run.db lacks recorded steps ("), summary.lost);
  BOOST_TEST(contains(summary.lost, "`cultivar resume`"), summary.lost);
  BOOST_TEST(read_text(run / "run.db") == before);
}

BOOST_AUTO_TEST_CASE(a_deleted_log_is_restored_from_the_checkpoint_and_the_rest_is_said_to_be_lost) {
  search(12, 20);
  fs::remove(run / "run.db-wal");
  const std::string said = resumed();
  BOOST_TEST(contains(said, "run.db-wal was deleted, cut or damaged"), said);
  BOOST_TEST(contains(said, "restored checkpoint"), said);
  BOOST_TEST(contains(said, "; lost: "), said);
  BOOST_TEST(contains(said, "evaluation"), said);
  BOOST_TEST(judged() >= 12);
  BOOST_TEST(judged() < evaluations);
  const auto outcome = resume_search(run, {"budget.evaluations=30"}, simulated_runtime({}), {}, kNever);
  BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
  const auto report = replay(run, simulated_runtime({}));
  BOOST_REQUIRE(report);
  BOOST_TEST(report->differences.empty());
  BOOST_TEST(resumed().empty());  // said once
}

BOOST_AUTO_TEST_CASE(a_log_that_is_cut_or_flipped_is_noticed) {
  search(1000, 20);  // no checkpoint
  const auto size = fs::file_size(run / "run.db-wal");
  fs::copy_file(run / "run.db-wal", path() / "wal");
  fs::resize_file(run / "run.db-wal", size - size / 3);
  const fs::path whole = path() / "whole";
  fs::copy(run, whole, fs::copy_options::recursive);
  const std::string cut = resumed();
  BOOST_TEST(contains(cut, "no checkpoint is newer; lost: "), cut);
  BOOST_TEST(judged() < evaluations);

  fs::remove_all(run);
  fs::copy(whole, run, fs::copy_options::recursive);
  fs::copy_file(path() / "wal", run / "run.db-wal", fs::copy_options::overwrite_existing);
  {
    std::fstream file(run / "run.db-wal", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size * 2 / 3));
    file.write("flip", 4);
  }
  BOOST_TEST(contains(resumed(), "lost: "));
}

BOOST_AUTO_TEST_CASE(without_a_witness_a_newer_checkpoint_is_still_noticed) {
  search(15, 20);
  fs::remove(run / "run.db-wal");
  write_text(run / "run.extent", "steps 1 nonsense");
  const std::string said = resumed();
  BOOST_TEST(contains(said, "restored checkpoint"), said);
  BOOST_TEST(judged() >= 15);
}

BOOST_AUTO_TEST_SUITE_END()
