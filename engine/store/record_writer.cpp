// SPDX-License-Identifier: Apache-2.0
#include "engine/store/record_writer.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <cmath>

#include "engine/store/checkpoint.hpp"
#include "engine/store/decision_kind.hpp"
#include "engine/store/interventions.hpp"
#include "engine/store/rows.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/tool_results.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/variant/tunables.hpp"
#include "operators/asking_operator.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

std::shared_ptr<SQLite::Database> open_for_writing(const fs::path& file, int flags) {
  auto db = std::make_shared<SQLite::Database>(file.string(), SQLite::OPEN_READWRITE | flags);
  db->setBusyTimeout(10'000);  // readers never block a WAL writer; this covers a recovery by another reader
  db->exec("PRAGMA journal_mode = WAL");
  // FULL: a step is on disk before the search acts on it, even if the machine loses power. It costs one fsync
  // per step: milliseconds, compared with seconds for an evaluation.
  db->exec("PRAGMA synchronous = FULL");
  db->exec("PRAGMA foreign_keys = ON");
  db->exec("PRAGMA cache_size = -8192");
  return db;
}

}  // namespace

double device_seconds(const Evaluation& e) {
  return std::round(1e3 * (e.check_seconds + e.measure_seconds)) / 1e3;
}

double spread_of(const Evaluation& e) {
  double spread = 0.0;
  int measured = 0;
  for (const WorkloadResult& workload : e.workloads) {
    if (!(workload.median_us > 0.0)) continue;
    spread += (workload.q3_us - workload.q1_us) / workload.median_us;
    ++measured;
  }
  return e.measured() && measured > 0 ? std::round(1e5 * spread / measured) / 1e5 : 0.0;
}

Findings findings_of(const Individual& individual, const Evaluation& evaluation,
                     std::map<std::string, double> descriptors) {
  return {individual.measured,
          individual.fitness,
          individual.duplicate_of,
          device_seconds(evaluation),
          individual.measured ? std::nullopt : std::optional(evaluation.stage),
          individual.workload_values,
          std::move(descriptors),
          spread_of(evaluation)};
}

RecordWriter::RecordWriter(RunFolder folder, RunLock lock, std::shared_ptr<SQLite::Database> database)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      database_(std::move(database)),
      record_(std::make_unique<Record>(database_, folder_.path())),
      witness_(folder_) {}
RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;
RecordWriter::~RecordWriter() {
  statements_.clear();
  if (!database_) return;
  try {  // SQLite does so itself only if nobody else reads: a copy of run.db alone shall have everything
    database_->exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch (const std::exception&) {  // a full disk: the log beside the file has it
  }
}

SQLite::Statement& RecordWriter::statement(const char* sql) {
  auto& prepared = statements_[sql];
  if (!prepared) prepared = std::make_unique<SQLite::Statement>(*database_, sql);
  prepared->reset();
  prepared->clearBindings();
  return *prepared;
}

template <class... Values>
void Step::run(const char* sql, const Values&... values) {
  SQLite::Statement& statement = writer_.statement(sql);
  SQLite::bind(statement, values...);
  statement.exec();
}

Expected<RecordWriter> RecordWriter::create(const RunFolder& folder, const RunFacts& facts) {
  std::error_code ec;
  fs::create_directories(folder.path(), ec);
  if (ec)
    return failure("create run", fmt::format("{}: {}; name another folder with --run-dir",
                                             folder.path().string(), ec.message()));
  auto lock = RunLock::take(folder);
  if (!lock) return tl::make_unexpected(lock.error());
  return create(folder, facts, std::move(*lock));
}

Expected<RecordWriter> RecordWriter::create(const RunFolder& folder, const RunFacts& facts, RunLock lock) {
  std::error_code ec;
  if (fs::exists(folder.database(), ec))
    return failure(
        "create run",
        fmt::format("{} already holds a run: resume it with `cultivar resume {}`, or choose another "
                    "folder with --run-dir",
                    folder.path().string(), folder.path().string()));
  for (const fs::path& path : {folder.checkpoints(), folder.submissions()}) {
    fs::create_directories(path, ec);
    if (ec) return failure("create run", path.string() + ": " + ec.message());
  }
  try {
    // Created under a temporary name: a kill before the rename leaves no incomplete run.
    const fs::path unfinished = folder.path() / "run.db.new";
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(unfinished.string() + suffix, ec);
    {
      SQLite::Database db(unfinished.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Transaction transaction(db);
      create_schema(db);
      const auto put = [&](const char* key, const std::string& value) {
        query(db, "INSERT INTO meta VALUES (?, ?)", key, value).exec();
      };
      put("name", facts.name);
      put("config", facts.config_yaml);
      put("task", facts.task_name);
      put("target", facts.target);
      put("task_files", json_text(facts.task_files));
      put("environment", json_text(facts.environment));
      put("workloads", json_text(facts.workloads));
      put("version", CULTIVAR_VERSION);
      put("created_at", fmt::format("{:.3f}", unix_now()));
      put("state", "running");
      put("stop_reason", "");
      put("elapsed_s", "0");
      db.exec("INSERT INTO tallies VALUES ('expelled', 0)");
      transaction.commit();
      // Before the rename: a kill during this change leaves a journal next to the database, without which no
      // reader may open it.
      db.exec("PRAGMA journal_mode = WAL");
    }
    fs::rename(unfinished, folder.database(), ec);
    if (ec) return failure("create run", folder.database().string() + ": " + ec.message());
    return RecordWriter(folder, std::move(lock), open_for_writing(folder.database(), 0));
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "create run", folder.database()));
  }
}

Expected<RecordWriter> RecordWriter::open(const RunFolder& folder, std::string damage) {
  std::error_code ec;
  if (!fs::exists(folder.database(), ec) && checkpoints_newest_first(folder).empty())
    return failure("open run", fmt::format("{} is not a run: it holds no run.db", folder.path().string()));
  auto lock = RunLock::take(folder);
  if (!lock) return tl::make_unexpected(lock.error());
  std::string recovery;
  if (damage.empty()) damage = damage_of(folder.database(), false);
  if (!damage.empty()) {
    auto recovered = recover(folder, damage);
    if (!recovered) return tl::make_unexpected(recovered.error());
    recovery = *recovered;
  } else {
    auto restored = restore_lost_steps(folder);
    if (!restored) return tl::make_unexpected(restored.error());
    recovery = *restored;
  }
  try {
    auto db = open_for_writing(folder.database(), 0);
    if (const int version = schema_version(*db); version < 1 || version > kSchemaVersion)
      return failure(
          "open run",
          fmt::format("{} has format {}, but this program writes format {}: resume it with the version "
                      "of Cultivar that started it",
                      folder.database().string(), version, kSchemaVersion));
    upgrade_schema(*db);
    RecordWriter writer(folder, std::move(*lock), std::move(db));
    writer.recovery_ = std::move(recovery);
    return writer;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "open run", folder.database()));
  }
}

Expected<void> RecordWriter::step(double elapsed_s, const std::function<void(Step&)>& write) {
  try {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    Step step(*this, elapsed_s);
    write(step);
    step.set("elapsed_s", fmt::format("{:.3f}", elapsed_s));
    step.set("heartbeat", fmt::format("{:.3f}", unix_now()));
    step.count("steps");
    transaction.commit();
    witness_.write(extent_of(*database_));
    for (auto& [sql, prepared] : statements_) prepared->tryReset();
    return {};
  } catch (const SQLite::Exception& e) {
    statements_.clear();
    return tl::make_unexpected(trouble(e, "record", folder_.database()));
  }
}

void Step::set(const std::string& key, const std::string& value) {
  run("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value);
}

void Step::count(const std::string& what, std::int64_t by) {
  run("INSERT INTO tallies VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = value + excluded.value", what,
      by);
}

void Step::decide(DecisionKind kind, IndividualId id, const std::string& stream, const std::string& body) {
  run("INSERT INTO decisions (kind, individual, stream, body, elapsed_s) VALUES (?, ?, ?, ?, ?)",
      std::string(name_of(kind)), id, stream, body, elapsed_s_);
}

void Step::propose(const Individual& individual, const std::string& source, const std::string& stream,
                   const std::string& body) {
  run("INSERT OR IGNORE INTO sources (source_id, text) VALUES (?, ?)", individual.source_id, source);
  const Descent& descent = individual.descent;
  run("INSERT INTO individuals (id, variant_id, source, configuration, parents, op, model, usd, tokens, "
      "island, note, proposed_at) VALUES (?, ?, (SELECT number FROM sources WHERE source_id = ?), ?, ?, ?, "
      "?, ?, ?, ?, ?, ?)",
      individual.id, individual.variant_id, individual.source_id, json_text(individual.configuration),
      json_text(descent.parents), origin_name(descent), descent.model, descent.usd, descent.tokens,
      descent.island, descent.note, unix_now());
  count("proposed");
  decide(DecisionKind::propose, individual.id, stream, body);
}

void Step::ask(const std::string& body, const std::string& stream, const std::string& request_hash,
               const std::string& request) {
  run("INSERT OR IGNORE INTO requests (hash, body) VALUES (?, ?)", request_hash, request);
  decide(DecisionKind::ask, 0, stream, body);
}

void Step::give_up(std::int64_t asking, double usd, double device_s, const GivenUp& end) {
  decide(DecisionKind::give_up, 0, "",
         json_text({{"asking", asking},
                    {"usd", usd},
                    {"device_s", device_s},
                    {"reason", end.reason},
                    {"why", name_of(end.why)}}));
}

void Step::direct(std::int64_t asking, const Directions& given) {
  decide(DecisionKind::direct, 0, "", json_text({{"asking", asking}, {"directions", given.words}}));
}

void Step::tool_result(std::int64_t asking, std::size_t turn, const ToolOutcome& outcome) {
  run("INSERT INTO tool_results (asking, turn, tool, failed, device_s, body, at) VALUES (?, ?, ?, ?, ?, ?, "
      "?)",
      asking, static_cast<std::int64_t>(turn), outcome.tool, outcome.failed ? 1 : 0, outcome.device_s,
      to_body(outcome), unix_now());
}

void Step::evaluation(IndividualId id, const char* kind, const nlohmann::json& body,
                      const std::string& samples) {
  auto& q = writer_.statement(
      "INSERT INTO evaluations (individual, kind, body, at, samples) VALUES (?, ?, ?, ?, ?)");
  SQLite::bind(q, id, kind, json_text(body), unix_now());
  q.bind(5, samples.data(), static_cast<int>(samples.size()));
  q.exec();
}

void Step::evaluation(IndividualId id, const char* kind, const Evaluation& evaluation) {
  Evaluation bare = evaluation;
  for (WorkloadResult& workload : bare.workloads) workload.samples.clear();
  this->evaluation(id, kind, bare, pack_samples(evaluation));
}

void Step::judge(const Individual& individual, const Evaluation& result,
                 const std::map<std::string, double>& descriptors) {
  evaluation(individual.id, "search", result);
  const std::string stage(name_of(result.stage));
  run("UPDATE individuals SET state = ?, stage = ?, reason = ?, machine_code = ?, duplicate_of = ?, fitness "
      "= ?, workload_values = ?, judged_at = ? WHERE id = ?",
      result.measured() ? 1 : 2, stage, result.reason, individual.machine_code, individual.duplicate_of,
      individual.fitness, json_text(individual.workload_values), unix_now(), individual.id);
  count("evaluations");
  count(result.measured() ? "measured" : tally_of_rejections(result.stage));
  if (!result.unit.empty()) set("unit", result.unit);
  nlohmann::json body{{"device_s", device_seconds(result)}};
  if (!descriptors.empty()) body["descriptors"] = descriptors;
  if (const double spread = spread_of(result); spread > 0.0) body["spread"] = spread;
  decide(DecisionKind::judge, individual.id, "", json_text(body));
}

void Step::put_off(IndividualId id, Examination of, const Evaluation& result) {
  evaluation(id, "late", result);
  decide(DecisionKind::put_off, id, "", std::string(name_of(of)));
}

void Step::host_fault(IndividualId id, Examination of, const Evaluation& result) {
  evaluation(id, "host_fault", result);
  decide(DecisionKind::put_off, id, "",
         json_text({{"of", name_of(of)}, {"host_fault", name_of(result.host_fault.value())}}));
}

void Step::challenge(IndividualId id) {
  decide(DecisionKind::challenge, id, "", "");
}

void Step::duel(IndividualId challenger, IndividualId incumbent, Verdict verdict, double alpha,
                const nlohmann::json& report, const Course& course) {
  run("INSERT INTO duels (challenger, incumbent, verdict, alpha, report, at) VALUES (?, ?, ?, ?, ?, ?)",
      challenger, incumbent, std::string(name_of(verdict)), alpha, json_text(report), unix_now());
  if (!course.went_on) count("duels");
  decide(DecisionKind::duel, challenger, "", to_body(DuelBody{verdict, course.may_go_on, course.result}));
}

void Step::confirm(IndividualId id, const Evaluation& result) {
  evaluation(id, "confirm", result);
  decide(DecisionKind::confirm, id, "", result.measured() ? "measured" : "rejected");
}

void Step::profile(IndividualId id, const Profile& profile) {
  evaluation(id, "profile", profile, "");
}

void Step::pace(IndividualId id, double fitness, double pace) {
  decide(DecisionKind::pace, id, "", json_text({{"fitness", fitness}, {"pace", pace}}));
}

void Step::promote(IndividualId id, double fitness) {
  set("best", std::to_string(id));
  count("promotions");
  const auto judged =
      first_of<std::int64_t>(*writer_.database_, "SELECT value FROM tallies WHERE key = 'evaluations'");
  decide(DecisionKind::promote, id, "", json_text({{"fitness", fitness}, {"evaluations", judged}}));
}

void Step::expel(IndividualId id) {
  run("UPDATE individuals SET expelled = 1 WHERE id = ?", id);
  run("INSERT INTO tallies SELECT 'expelled', count(*) FROM individuals WHERE expelled = 1 "
      "ON CONFLICT(key) DO UPDATE SET value = excluded.value");  // records of earlier versions have no such
                                                                 // tally
  decide(DecisionKind::expel, id, "", "");
}

void Step::migrate(const Migration& move) {
  nlohmann::json body{{"from", move.from}, {"to", move.to}};
  if (move.reset) body["reset"] = true;
  decide(DecisionKind::migrate, move.id, "", json_text(body));
}

void Step::intervene(const Intervention& intervention) {
  count("interventions");
  decide(DecisionKind::intervene, intervention.ancestor, "", json_text(to_json(intervention)));
}

void Step::outcome(const InterventionResult& result) {
  decide(DecisionKind::outcome, 0, "", json_text(to_json(result)));
}

void Step::session(const std::string& what, const std::optional<GateChange>& change) {
  decide(DecisionKind::session, 0, "", change ? session_body(what, *change) : what);
  set("version", CULTIVAR_VERSION);
}

void Step::event(const std::string& kind, IndividualId id, const std::string& text) {
  run("INSERT INTO events (at, kind, individual, text) VALUES (?, ?, ?, ?)", unix_now(), kind, id, text);
}

void Step::device_time(double seconds) {
  if (const auto ms = std::llround(1e3 * seconds); ms > 0) count("device_ms", ms);
}

void Step::use_exchange(std::int64_t exchange, IndividualId made_of_it) {
  run("UPDATE exchanges SET used_by = ? WHERE number = ?", made_of_it, exchange);
}

}  // namespace cultivar
