// SPDX-License-Identifier: Apache-2.0
// The record on its own: what is written is read back, steps are whole, damage is found and repaired.
#include "engine/store/record.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <sys/stat.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "engine/store/checkpoint.hpp"
#include "engine/store/record_writer.hpp"
#include "engine/store/rows.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/hash.hpp"
#include "support/contains.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

RunFacts some_facts() {
  RunFacts facts;
  facts.name = "test";
  facts.config_yaml = "name: test\n";
  facts.task_name = "softmax";
  facts.target = "cpu";
  facts.task_files = {{"task.yaml", "name: softmax\n"}};
  facts.environment = {{"compiler", "c"},
                       {"devices", {{{"description", "d"}, {"facts", {{"num_cores", 2.0}}}}}}};
  facts.workloads = {"a", "b"};
  return facts;
}

Individual proposal(IndividualId id) {
  Individual i;
  i.id = id;
  i.variant_id = sha256_hex(std::to_string(id));
  i.source_id = id % 3 == 0 ? "source-b" : "source-a";
  i.configuration = {{"BLOCK", std::int64_t{16}}, {"LAYOUT", std::string("packed")}};
  i.descent = {id > 1 ? std::vector<IndividualId>{id - 1} : std::vector<IndividualId>{},
               id > 1 ? Origin::operator_ : Origin::seed,
               id > 1 ? "tune" : "",
               "",
               0.0,
               0,
               1,
               "note"};
  return i;
}

Evaluation measured(double fitness) {
  Evaluation e;
  e.verdict = Evaluation::Verdict::measured;
  e.stage = Stage::measure;
  e.fitness = fitness;
  e.unit = "GFLOPS";
  e.diagnostics = "bytes that are no UTF-8: \xff\xfe";
  for (const char* name : {"a", "b"}) {
    WorkloadResult w;
    w.workload = name;
    w.samples = {{0.1, 0, 0, 0, 0}, {1.0 / 3.0, 0, 0, 0, 0}};
    w.value = fitness;
    e.workloads.push_back(w);
  }
  e.workloads[1].samples[0] = {0.25, 1980.0, 61.5, 700.0, 0x8000000000000001U};
  return e;
}

// A run of `n` individuals, all judged.
void write_run(const RunFolder& folder, IndividualId n, IndividualId checkpoint_after = 0) {
  auto writer = RecordWriter::create(folder, some_facts());
  BOOST_REQUIRE_MESSAGE(writer, (writer ? "" : writer.error().message));
  for (IndividualId id = 1; id <= n; ++id) {
    BOOST_REQUIRE(writer->step(static_cast<double>(id), [&](Step& step) {
      step.propose(proposal(id), "text " + proposal(id).source_id, "s");
    }));
    BOOST_REQUIRE(writer->step(static_cast<double>(id), [&](Step& step) {
      Individual i = proposal(id);
      i.fitness = static_cast<double>(id);
      i.measured = true;
      i.machine_code = "code" + std::to_string(id);
      step.judge(i, measured(i.fitness));
      if (id == n) step.promote(id, i.fitness);
    }));
    if (id == checkpoint_after) BOOST_REQUIRE(make_checkpoint(folder, 3));
  }
}

void overwrite(const fs::path& file, std::uintmax_t at, const std::string& bytes) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekp(static_cast<std::streamoff>(at));
  f.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(record, ScratchFolder)

BOOST_AUTO_TEST_CASE(a_search_that_records_nothing_for_a_minute_is_frozen) {
  const RunFolder folder(path() / "run");
  auto writer = RecordWriter::create(folder, some_facts());
  BOOST_REQUIRE(writer);
  BOOST_REQUIRE(writer->step(1.0, [](Step& step) { step.set("state", "running"); }));
  const auto record = Record::open(folder.path());
  BOOST_REQUIRE(record);
  BOOST_TEST(summary_of(*record).state == "running");
  BOOST_TEST((summary_of(*record).process == getpid()));
  BOOST_TEST(*summary_of(*record).heartbeat_age_s < 60.0);
  {
    SQLite::Database db((folder.database()).string(), SQLite::OPEN_READWRITE);
    db.exec("UPDATE meta SET value = value - 100 WHERE key = 'heartbeat'");
  }
  const Summary frozen = summary_of(*record);
  BOOST_TEST(frozen.state == "frozen");
  BOOST_TEST(*frozen.heartbeat_age_s > 99.0);
  BOOST_TEST(contains(frozen.stop_reason, "recorded nothing for 100 s"), frozen.stop_reason);
  BOOST_REQUIRE(writer->step(2.0, [](Step&) {}));
  BOOST_TEST(summary_of(*record).state == "running");  // it was only suspended
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  const RunFolder folder(path() / "run");
  write_run(folder, 7);
  const auto record = Record::open(folder.path());
  BOOST_REQUIRE(record);
  BOOST_TEST(record->count() == 7);
  const auto row = record->individual(5);
  BOOST_REQUIRE(row);
  BOOST_TEST((row->individual.configuration == proposal(5).configuration));
  BOOST_TEST((row->individual.descent.parents == std::vector<IndividualId>{4}));
  BOOST_TEST(row->individual.fitness == 5.0);
  BOOST_TEST(row->individual.machine_code == "code5");
  BOOST_TEST(record->source(5) == "text source-a");
  BOOST_TEST(record->source(6) == "text source-b");
  BOOST_TEST(record->best().value() == 7);
  BOOST_TEST(record->first_seed().value() == 1);
  BOOST_TEST(record->lineage(7).size() == 7);
  BOOST_TEST((record->descendants(3) == std::vector<IndividualId>{4}));
  BOOST_TEST(record->find("3").value() == 3);
  BOOST_TEST(record->find(proposal(3).variant_id.substr(0, 12)).value() == 3);
  BOOST_TEST(!record->find("zzz"));
  BOOST_TEST(!record->individual(8));
  BOOST_TEST(record->list(Record::Order::fittest, 2).front().individual.id == 7);
  BOOST_TEST(record->facts().workloads.size() == 2);
  BOOST_TEST(record->facts().unit_of_fitness == "GFLOPS");
}

BOOST_AUTO_TEST_CASE(a_winner_is_named_from_its_duel_until_its_confirmation_has_ended) {
  const RunFolder folder(path() / "run");
  write_run(folder, 4);
  auto writer = RecordWriter::open(folder);
  BOOST_REQUIRE(writer);
  const Record& record = writer->record();
  const auto then = [&](const std::function<void(Step&)>& write) {
    BOOST_REQUIRE(writer->step(9.0, write));
    return record.outstanding().value_or(0);
  };
  const auto duel = [](IndividualId id, Verdict verdict) {
    return [=](Step& step) { step.duel(id, 4, verdict, 0.01, {}, {}); };
  };
  const auto challenge = [](IndividualId id) { return [=](Step& step) { step.challenge(id); }; };
  BOOST_TEST(!record.outstanding());
  BOOST_TEST(then(challenge(1)) == 0);
  BOOST_TEST(then(duel(1, Verdict::undecided)) == 0);
  BOOST_TEST(then(challenge(2)) == 0);
  BOOST_TEST(then(duel(2, Verdict::better)) == 2);
  BOOST_TEST(summary_of(record).outstanding->fitness == 2.0);
  BOOST_TEST(summary_of(record).outstanding->by_duel);
  BOOST_TEST(nlohmann::json(summary_of(record)).at("outstanding").at("id") == 2);
  BOOST_TEST(then(challenge(2)) == 2);  // its confirmation,
  BOOST_TEST(then(challenge(2)) == 2);  // and again after trouble
  BOOST_TEST(then([](Step& step) { step.confirm(2, measured(2)), step.promote(2, 2.0); }) == 0);
  BOOST_TEST(nlohmann::json(summary_of(record)).at("outstanding").is_null());
  BOOST_TEST(then(challenge(3)) == 0);
  BOOST_TEST(then(duel(3, Verdict::better)) == 3);
  BOOST_TEST(then([](Step& step) { step.expel(3); }) == 0);
}

BOOST_AUTO_TEST_CASE(the_first_best_is_named_while_it_is_confirmed) {
  const RunFolder folder(path() / "run");
  auto writer = RecordWriter::create(folder, some_facts());
  BOOST_REQUIRE(writer);
  BOOST_REQUIRE(writer->step(1.0, [&](Step& step) {
    Individual i = proposal(1);
    step.propose(i, "text", "s");
    i.fitness = 1.0;
    step.judge(i, measured(1.0));
  }));
  BOOST_TEST(!writer->record().outstanding());
  BOOST_REQUIRE(writer->step(1.0, [](Step& step) { step.challenge(1); }));
  BOOST_TEST(writer->record().outstanding().value() == 1);
  BOOST_TEST(!summary_of(writer->record()).outstanding->by_duel);
  BOOST_CHECK_EXCEPTION(find_individual(writer->record(), "best"), InputError, [](const InputError& error) {
    return contains(error.what(), "the confirmation of #1 is pending");
  });
}

BOOST_AUTO_TEST_CASE(profiles_are_kept_beside_evaluations_and_the_newest_counts) {
  const RunFolder folder(path() / "run");
  write_run(folder, 3);
  {
    auto writer = RecordWriter::open(folder);
    BOOST_REQUIRE(writer);
    for (const double median : {10.0, 20.0, 30.0}) {
      Profile profile;
      profile.workload = median == 30.0 ? "large" : "small";
      profile.median_us = median;
      profile.missing = {"counters: none here"};
      BOOST_REQUIRE(writer->step(9.0, [&](Step& step) { step.profile(2, profile); }));
    }
  }
  const auto record = Record::open(folder.path());
  BOOST_REQUIRE(record);
  BOOST_TEST(record->profile(2)->median_us == 30.0);
  BOOST_TEST(record->profile(2, "small")->median_us == 20.0);
  BOOST_TEST(record->profile(2, "small")->missing.front() == "counters: none here");
  BOOST_TEST(!record->profile(2, "huge"));
  BOOST_TEST(!record->profile(1));
  BOOST_TEST(record->evaluation(2)->fitness == 2.0);
  BOOST_TEST(summary_of(*record).evaluations == 3);
}

BOOST_AUTO_TEST_CASE(samples_come_back_bit_for_bit) {
  const RunFolder folder(path() / "run");
  write_run(folder, 1);
  const Evaluation back = Record::open(folder.path())->evaluation(1).value(), there = measured(1);
  for (std::size_t w = 0; w < 2; ++w)
    for (std::size_t i = 0; i < 2; ++i) {
      const Sample &a = back.workloads[w].samples[i], &b = there.workloads[w].samples[i];
      BOOST_TEST((a.seconds == b.seconds && a.clock_mhz == b.clock_mhz &&
                  a.temperature_c == b.temperature_c && a.power_w == b.power_w && a.throttle == b.throttle));
    }
}

BOOST_AUTO_TEST_CASE(packed_samples_that_were_cut_are_refused) {
  const Evaluation e = measured(1);
  const std::string bytes = pack_samples(e);
  Evaluation bare = e;
  for (std::size_t n = 0; n < bytes.size(); ++n) BOOST_TEST(!unpack_samples(bytes.substr(0, n), bare), n);
  BOOST_TEST(unpack_samples(bytes, bare));
  BOOST_TEST(!unpack_samples(bytes + "x", bare));
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_leaves_nothing) {
  const RunFolder folder(path() / "run");
  auto writer = RecordWriter::create(folder, some_facts());
  BOOST_REQUIRE(writer);
  BOOST_REQUIRE(writer->step(1, [](Step& step) { step.propose(proposal(1), "text", "s"); }));
  const auto again = writer->step(2, [](Step& step) {
    step.event("trouble", 0, "half a step");
    step.propose(proposal(1), "text", "s");  // the id is taken
  });
  BOOST_TEST(!again);
  BOOST_TEST(writer->record().events(10).empty());
  BOOST_TEST(summary_of(writer->record()).in_flight == 1);
  BOOST_REQUIRE(
      writer->step(3, [](Step& step) { step.propose(proposal(2), "text", "s"); }));  // and it goes on
  BOOST_TEST(writer->record().count() == 2);
}

BOOST_AUTO_TEST_CASE(a_folder_without_a_run_and_a_newer_format_are_said) {
  BOOST_TEST(Record::open(path()).error().message.find("no run") != std::string::npos);
  BOOST_TEST(RecordWriter::open(RunFolder(path() / "nowhere")).error().message.find("no run") !=
             std::string::npos);
  const RunFolder folder(path() / "run");
  write_run(folder, 1);
  overwrite(folder.database(), 60, std::string("\0\0\0\x63", 4));  // user_version, in the header
  BOOST_TEST(Record::open(folder.path()).error().message.find("99") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_newest_checkpoints_are_kept) {
  const RunFolder folder(path() / "run");
  write_run(folder, 1);
  auto writer = RecordWriter::open(folder);
  BOOST_REQUIRE(writer);
  for (int i = 0; i < 5; ++i) {
    BOOST_REQUIRE(writer->step(1, [](Step& step) { step.session("again"); }));
    BOOST_REQUIRE(make_checkpoint(folder, 2));
  }
  const auto files = checkpoints_newest_first(folder);
  BOOST_REQUIRE_EQUAL(files.size(), 2);
  BOOST_TEST(damage_of(files[0], true).empty());
}

BOOST_AUTO_TEST_CASE(a_database_cut_or_scribbled_anywhere_goes_back_to_its_checkpoint) {
  const RunFolder original(path() / "run");
  write_run(original, 60, 40);
  const auto size = fs::file_size(original.database());
  int recovered = 0, unharmed = 0, salvaged = 0;
  for (int cut = 0; cut < 2; ++cut)
    for (std::uintmax_t at = 0; at < size; at += size / 17 + 1) {
      const RunFolder folder(path() / "copy");
      fs::remove_all(folder.path());
      fs::copy(original.path(), folder.path(), fs::copy_options::recursive);
      if (cut)
        fs::resize_file(folder.database(), at);
      else
        overwrite(folder.database(), at, std::string(2000, '\x5a'));
      const auto writer = RecordWriter::open(folder);
      BOOST_REQUIRE_MESSAGE(writer, (writer ? "" : writer.error().message));
      const std::int64_t count = writer->record().count();
      BOOST_TEST((count == 40 || count == 60));
      if (writer->recovery().empty()) {
        ++unharmed;  // the damage is in a page that holds old evaluations or nothing
        BOOST_TEST(count == 60);
      } else {
        ++recovered;
        salvaged += count == 60;
        BOOST_TEST(writer->recovery().find("checkpoint") != std::string::npos);
        BOOST_TEST(writer->recovery().find(count == 60 ? "no recorded data was lost" : "lost: ") !=
                       std::string::npos,
                   writer->recovery());
        BOOST_TEST(!fs::is_empty(folder.damaged()));
      }
      std::int64_t read = 0;
      writer->record().each_individual([&](const IndividualRow&) { ++read; });
      BOOST_TEST(read == count);
    }
  BOOST_TEST(recovered >= 17);
  BOOST_TEST_MESSAGE("recovered " << recovered << ", of which without loss " << salvaged << "; unharmed "
                                  << unharmed);
}

BOOST_AUTO_TEST_CASE(a_record_with_statements_of_another_program_is_not_read_but_restored) {
  const std::string endless =
      "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n)";
  for (const std::string& change : std::vector<std::string>{
           "ALTER TABLE meta RENAME TO old; CREATE VIEW meta AS SELECT key, value FROM old WHERE " + endless,
           "ALTER TABLE individuals RENAME TO old; CREATE VIEW individuals AS SELECT * FROM old WHERE " +
               endless,
           "CREATE TRIGGER t AFTER INSERT ON decisions BEGIN SELECT " + endless + "; END",
           "ALTER TABLE events ADD COLUMN more TEXT AS (hex(zeroblob(900000000)))",
           "CREATE INDEX i ON individuals(hex(zeroblob(900000000)))", "CREATE TABLE more (a TEXT)"}) {
    const RunFolder folder(path() / "run");
    fs::remove_all(folder.path());
    write_run(folder, 5, 3);
    {
      SQLite::Database db(folder.database().string(), SQLite::OPEN_READWRITE);
      if (change.starts_with("CREATE INDEX")) db.exec("PRAGMA writable_schema = ON");
      if (change.starts_with("CREATE INDEX"))  // as if it were made; making it takes long
        db.exec("INSERT INTO sqlite_schema VALUES ('index', 'i', 'individuals', 2, '" + change + "')");
      else
        db.exec(change);
    }
    const auto record = Record::open(folder.path());
    BOOST_REQUIRE_MESSAGE(!record, change);
    BOOST_TEST(record.error().message.size() < 1000U);
    const auto writer = RecordWriter::open(folder);
    BOOST_REQUIRE_MESSAGE(writer, (writer ? "" : writer.error().message));
    BOOST_TEST(writer->record().count() == 3, change);
    BOOST_TEST(contains(writer->recovery(), "restored checkpoint"), writer->recovery());
    BOOST_TEST(Record::open(folder.path()).has_value());
  }
}

BOOST_AUTO_TEST_CASE(what_a_record_says_that_no_search_writes_is_an_error_and_no_crash) {
  const RunFolder folder(path() / "run");
  std::string nested(100'000, '[');
  nested += std::string(100'000, ']');
  const auto read = [&] {
    try {
      const auto record = Record::open(folder.path());
      if (!record) return record.error().message;
      (void)record->facts();
      (void)summary_of(*record);
      record->each_individual([](const IndividualRow&) {});
      record->each_decision([](const DecisionRow&) {});
      (void)record->lineage(5);
      return std::string("nothing");
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
  };
  for (const std::string& change : std::vector<std::string>{
           "UPDATE individuals SET state = 7", "UPDATE individuals SET state = -1 WHERE id = 2",
           "UPDATE individuals SET fitness = 9e999 WHERE id = 3",
           "UPDATE individuals SET op = printf('%.900000c', 'x') WHERE id = 3",
           "UPDATE individuals SET parents = '[5]' WHERE id = 4",
           "UPDATE individuals SET configuration = '" + nested + "' WHERE id = 1",
           "UPDATE individuals SET configuration = '{\"BLOCK\": 1e300}' WHERE id = 1",
           "UPDATE decisions SET elapsed_s = 9e999 WHERE seq = 2",
           "UPDATE meta SET value = '999' WHERE key = 'best'",
           "UPDATE meta SET value = 'x' WHERE key = 'elapsed_s'",
           "UPDATE meta SET value = '" + nested + "' WHERE key = 'environment'",
           "UPDATE meta SET value = '../../task' WHERE key = 'task'",
           "UPDATE meta SET value = '{\"../../../x\": \"\"}' WHERE key = 'task_files'",
           "UPDATE meta SET value = '{\"/etc/x\": \"\"}' WHERE key = 'task_files'",
           "UPDATE meta SET value = '{\"a/b/c\": \"\"}' WHERE key = 'task_files'"}) {
    fs::remove_all(folder.path());
    write_run(folder, 5);
    BOOST_TEST_REQUIRE(read() == "nothing");
    SQLite::Database(folder.database().string(), SQLite::OPEN_READWRITE).exec(change);
    const std::string said = read();
    BOOST_TEST(said != "nothing", change.substr(0, 100));
    BOOST_TEST(said.size() < 1000U, said.substr(0, 100));
  }
}

BOOST_AUTO_TEST_CASE(a_pipe_in_place_of_a_file_of_a_run_is_not_waited_for) {
  const RunFolder folder(path() / "run");
  write_run(folder, 5, 3);
  fs::remove(folder.lock());
  BOOST_REQUIRE(::mkfifo(folder.lock().c_str(), 0600) == 0);
  BOOST_REQUIRE(::mkfifo((folder.checkpoints() / "9999999999.db").c_str(), 0600) == 0);
  BOOST_TEST(summary_of(*Record::open(folder.path())).state == "stopped");
  fs::remove(folder.lock());
  fs::remove(folder.database());
  BOOST_REQUIRE(::mkfifo(folder.database().c_str(), 0600) == 0);
  BOOST_TEST(!Record::open(folder.path()));
  const auto writer = RecordWriter::open(folder);
  BOOST_REQUIRE_MESSAGE(writer, (writer ? "" : writer.error().message));
  BOOST_TEST(writer->record().count() == 3);
}

BOOST_AUTO_TEST_CASE(a_missing_database_is_restored_and_none_to_restore_is_said) {
  const RunFolder folder(path() / "run");
  write_run(folder, 5, 3);
  fs::remove(folder.database());
  {
    const auto writer = RecordWriter::open(folder);
    BOOST_REQUIRE(writer);
    BOOST_TEST(writer->record().count() == 3);
  }
  fs::remove_all(folder.checkpoints());
  fs::resize_file(folder.database(), 100);
  const auto hopeless = RecordWriter::open(folder);
  BOOST_REQUIRE(!hopeless);
  BOOST_TEST(hopeless.error().message.find("no good checkpoint") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_a_damaged_record_is_refused_and_the_older_one_kept) {
  const RunFolder folder(path() / "run");
  write_run(folder, 40, 30);
  const auto before = checkpoints_newest_first(folder);
  overwrite(folder.database(), fs::file_size(folder.database()) / 2, std::string(9000, '\x5a'));
  BOOST_TEST(!make_checkpoint(folder, 1));
  BOOST_TEST((checkpoints_newest_first(folder) == before));
}

BOOST_AUTO_TEST_CASE(the_best_of_a_run_without_one_is_explained_by_what_there_is) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  auto writer = RecordWriter::create(folder, some_facts());
  BOOST_REQUIRE(writer);
  const auto words = [&](const char* name) {
    try {
      (void)find_individual(writer->record(), name);
      return std::string("no complaint");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  BOOST_TEST(words("best").find("no kernel has been measured") != std::string::npos, words("best"));
  BOOST_REQUIRE(writer->step(1.0, [&](Step& step) { step.propose(proposal(1), "text", "s"); }));
  Individual seed = proposal(1);
  seed.measured = true;
  seed.fitness = 5.0;
  BOOST_REQUIRE(writer->step(2.0, [&](Step& step) { step.judge(seed, measured(5.0)); }));
  BOOST_TEST(words("seed") == "no complaint");
  BOOST_TEST(words("best").find("awaits confirmation") != std::string::npos, words("best"));
}

BOOST_AUTO_TEST_SUITE_END()
