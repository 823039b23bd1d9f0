#include "engine/store/journal.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <chrono>
#include <cmath>

#include "engine/store/checkpoint.hpp"
#include "engine/store/configuration_json.hpp"
#include "engine/store/samples.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/tool_results.hpp"
#include "engine/store/trouble.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Anything may stand in a compiler's message; JSON wants UTF-8.
std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::shared_ptr<SQLite::Database> open_for_writing(const fs::path& file, int flags) {
  auto db = std::make_shared<SQLite::Database>(file.string(), SQLite::OPEN_READWRITE | flags);
  db->setBusyTimeout(10'000);  // readers never block a WAL writer; this covers a recovery by another reader
  db->exec("PRAGMA journal_mode = WAL");
  // FULL: a step is on the disk before the search acts on it, even if the machine loses power. It costs one
  // fsync a step, milliseconds beside an evaluation of seconds.
  db->exec("PRAGMA synchronous = FULL");
  db->exec("PRAGMA foreign_keys = ON");
  db->exec("PRAGMA cache_size = -8192");
  return db;
}

}  // namespace

double device_seconds(const Evaluation& e) {
  return std::round(1e3 * (e.check_seconds + e.measure_seconds)) / 1e3;
}

Journal::Journal(RunFolder folder, RunLock lock, std::shared_ptr<SQLite::Database> database)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      database_(std::move(database)),
      record_(std::make_unique<Record>(database_, folder_.path())) {}
Journal::Journal(Journal&&) noexcept = default;
Journal& Journal::operator=(Journal&&) noexcept = default;
Journal::~Journal() {
  statements_.clear();
}

SQLite::Statement& Journal::statement(const char* sql) {
  auto& prepared = statements_[sql];
  if (!prepared) prepared = std::make_unique<SQLite::Statement>(*database_, sql);
  prepared->reset();
  prepared->clearBindings();
  return *prepared;
}

Expected<Journal> Journal::create(const RunFolder& folder, const RunFacts& facts) {
  std::error_code ec;
  fs::create_directories(folder.path(), ec);
  if (ec) return failure("create run", folder.path().string() + ": " + ec.message());
  auto lock = RunLock::take(folder);
  if (!lock) return tl::make_unexpected(lock.error());
  return create(folder, facts, std::move(*lock));
}

Expected<Journal> Journal::create(const RunFolder& folder, const RunFacts& facts, RunLock lock) {
  std::error_code ec;
  if (fs::exists(folder.database(), ec))
    return failure("create run",
                   fmt::format("{} already holds a run: go on with `cultivar resume {}`, or choose another "
                               "folder with --run-dir",
                               folder.path().string(), folder.path().string()));
  for (const fs::path& path : {folder.checkpoints(), folder.submissions()}) {
    fs::create_directories(path, ec);
    if (ec) return failure("create run", path.string() + ": " + ec.message());
  }
  try {
    // Made whole under another name: a kill before the rename leaves no half-made run.
    const fs::path unfinished = folder.path() / "run.db.new";
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(unfinished.string() + suffix, ec);
    {
      SQLite::Database db(unfinished.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Transaction transaction(db);
      create_schema(db);
      SQLite::Statement insert(db, "INSERT INTO meta VALUES (?, ?)");
      const auto put = [&](const char* key, const std::string& value) {
        insert.reset();
        insert.bind(1, key);
        insert.bind(2, value);
        insert.exec();
      };
      put("name", facts.name);
      put("config", facts.config_yaml);
      put("task", facts.task_name);
      put("target", facts.target);
      put("task_files", dumped(facts.task_files));
      put("environment", dumped(facts.environment));
      put("workloads", dumped(facts.workloads));
      put("created_at", fmt::format("{:.3f}", now()));
      put("state", "running");
      put("stop_reason", "");
      put("elapsed_s", "0");
      transaction.commit();
    }
    fs::rename(unfinished, folder.database(), ec);
    if (ec) return failure("create run", folder.database().string() + ": " + ec.message());
    return Journal(folder, std::move(lock), open_for_writing(folder.database(), 0));
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "create run", folder.database()));
  }
}

Expected<Journal> Journal::open(const RunFolder& folder, std::string damage) {
  std::error_code ec;
  if (!fs::exists(folder.database(), ec) && checkpoints_newest_first(folder).empty())
    return failure("open run",
                   fmt::format("{} holds no run (there is no run.db in it)", folder.path().string()));
  auto lock = RunLock::take(folder);
  if (!lock) return tl::make_unexpected(lock.error());
  std::string recovery;
  if (damage.empty()) damage = damage_of(folder.database(), false);
  if (!damage.empty()) {
    auto recovered = recover(folder, damage);
    if (!recovered) return tl::make_unexpected(recovered.error());
    recovery = *recovered;
  }
  try {
    auto db = open_for_writing(folder.database(), 0);
    if (const int version = schema_version(*db); version < 1 || version > kSchemaVersion)
      return failure(
          "open run",
          fmt::format("{} has format {}, this program writes format {}: resume it with the program "
                      "that began it",
                      folder.database().string(), version, kSchemaVersion));
    upgrade_schema(*db);
    Journal journal(folder, std::move(*lock), std::move(db));
    journal.recovery_ = std::move(recovery);
    return journal;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "open run", folder.database()));
  }
}

Expected<void> Journal::step(double elapsed_s, const std::function<void(Step&)>& write) {
  try {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    Step step(*this, elapsed_s);
    write(step);
    step.set("elapsed_s", fmt::format("{:.3f}", elapsed_s));
    transaction.commit();
    for (auto& [sql, prepared] : statements_) prepared->tryReset();
    return {};
  } catch (const SQLite::Exception& e) {
    statements_.clear();
    return tl::make_unexpected(trouble(e, "record", folder_.database()));
  }
}

void Step::set(const std::string& key, const std::string& value) {
  auto& q = journal_.statement("INSERT OR REPLACE INTO meta VALUES (?, ?)");
  q.bind(1, key);
  q.bind(2, value);
  q.exec();
}

void Step::count(const std::string& what, std::int64_t by) {
  auto& q = journal_.statement(
      "INSERT INTO tallies VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = value + excluded.value");
  q.bind(1, what);
  q.bind(2, by);
  q.exec();
}

void Step::decide(const std::string& kind, IndividualId id, const std::string& stream,
                  const std::string& body) {
  auto& q = journal_.statement(
      "INSERT INTO decisions (kind, individual, stream, body, elapsed_s) VALUES (?, ?, ?, ?, ?)");
  q.bind(1, kind);
  q.bind(2, id);
  q.bind(3, stream);
  q.bind(4, body);
  q.bind(5, elapsed_s_);
  q.exec();
}

void Step::propose(const Individual& individual, const std::string& source, const std::string& stream,
                   const std::string& body) {
  auto& text = journal_.statement("INSERT OR IGNORE INTO sources (source_id, text) VALUES (?, ?)");
  text.bind(1, individual.source_id);
  text.bind(2, source);
  text.exec();
  auto& q = journal_.statement(
      "INSERT INTO individuals (id, variant_id, source, configuration, parents, op, model, usd, tokens, "
      "island, note, "
      "proposed_at) VALUES (?, ?, (SELECT number FROM sources WHERE source_id = ?), ?, ?, ?, ?, ?, ?, ?, ?, "
      "?)");
  const Descent& descent = individual.descent;
  q.bind(1, individual.id);
  q.bind(2, individual.variant_id);
  q.bind(3, individual.source_id);
  q.bind(4, dumped(configuration_to_json(individual.configuration)));
  q.bind(5, dumped(descent.parents));
  q.bind(6, descent.op);
  q.bind(7, descent.model);
  q.bind(8, descent.usd);
  q.bind(9, descent.tokens);
  q.bind(10, descent.island);
  q.bind(11, descent.note);
  q.bind(12, now());
  q.exec();
  count("proposed");
  decide("propose", individual.id, stream, body);
}

void Step::ask(const std::string& body, const std::string& stream, const std::string& request_hash,
               const std::string& request) {
  auto& q = journal_.statement("INSERT OR IGNORE INTO requests (hash, body) VALUES (?, ?)");
  q.bind(1, request_hash);
  q.bind(2, request);
  q.exec();
  decide("ask", 0, stream, body);
}

void Step::give_up(std::int64_t asking, double usd, double device_s, const std::string& reason) {
  decide("give_up", 0, "",
         dumped({{"asking", asking}, {"usd", usd}, {"device_s", device_s}, {"reason", reason}}));
}

void Step::tool_result(std::int64_t asking, std::size_t turn, const ToolOutcome& outcome) {
  auto& q = journal_.statement(
      "INSERT INTO tool_results (asking, turn, tool, failed, device_s, body, at) VALUES (?, ?, ?, ?, ?, ?, "
      "?)");
  q.bind(1, asking);
  q.bind(2, static_cast<std::int64_t>(turn));
  q.bind(3, outcome.tool);
  q.bind(4, outcome.failed ? 1 : 0);
  q.bind(5, outcome.device_s);
  q.bind(6, to_body(outcome));
  q.bind(7, now());
  q.exec();
}

void Step::evaluation(IndividualId id, const char* kind, const Evaluation& evaluation) {
  Evaluation bare = evaluation;
  for (WorkloadResult& workload : bare.workloads) workload.samples.clear();
  const std::string samples = pack_samples(evaluation);
  auto& q = journal_.statement(
      "INSERT INTO evaluations (individual, kind, body, samples, at) VALUES (?, ?, ?, ?, ?)");
  q.bind(1, id);
  q.bind(2, kind);
  q.bind(3, dumped(bare));
  q.bind(4, samples.data(), static_cast<int>(samples.size()));
  q.bind(5, now());
  q.exec();
}

void Step::judge(const Individual& individual, const Evaluation& result) {
  evaluation(individual.id, "search", result);
  auto& q = journal_.statement(
      "UPDATE individuals SET state = ?, stage = ?, reason = ?, machine_code = ?, duplicate_of = ?, fitness "
      "= ?, "
      "workload_values = ?, judged_at = ? WHERE id = ?");
  q.bind(1, result.measured() ? 1 : 2);
  q.bind(2, std::string(name_of(result.stage)));
  q.bind(3, result.reason);
  q.bind(4, individual.machine_code);
  q.bind(5, individual.duplicate_of);
  q.bind(6, individual.fitness);
  q.bind(7, dumped(individual.workload_values));
  q.bind(8, now());
  q.bind(9, individual.id);
  q.exec();
  count("evaluations");
  count(result.measured() ? "measured" : "rejected " + std::string(name_of(result.stage)));
  if (!result.unit.empty()) set("unit", result.unit);
  decide("judge", individual.id, "", dumped({{"device_s", device_seconds(result)}}));
}

void Step::put_off(IndividualId id, const std::string& of, const Evaluation& result) {
  evaluation(id, "late", result);
  decide("put_off", id, "", of);
}

void Step::challenge(IndividualId id) {
  decide("challenge", id, "", "");
}

void Step::duel(IndividualId challenger, IndividualId incumbent, const std::string& verdict, double alpha,
                const nlohmann::json& report) {
  auto& q = journal_.statement(
      "INSERT INTO duels (challenger, incumbent, verdict, alpha, report, at) VALUES (?, ?, ?, ?, ?, ?)");
  q.bind(1, challenger);
  q.bind(2, incumbent);
  q.bind(3, verdict);
  q.bind(4, alpha);
  q.bind(5, dumped(report));
  q.bind(6, now());
  q.exec();
  count("duels");
  decide("duel", challenger, "", verdict);
}

void Step::confirm(IndividualId id, const Evaluation& result) {
  evaluation(id, "confirm", result);
  decide("confirm", id, "", result.measured() ? "measured" : "rejected");
}

void Step::profile(IndividualId id, const Profile& profile) {
  auto& q = journal_.statement(
      "INSERT INTO evaluations (individual, kind, body, samples, at) VALUES (?, 'profile', ?, ?, ?)");
  q.bind(1, id);
  q.bind(2, dumped(profile));
  q.bind(3, "", 0);
  q.bind(4, now());
  q.exec();
}

void Step::pace(IndividualId id, double fitness, double pace) {
  decide("pace", id, "", dumped({{"fitness", fitness}, {"pace", pace}}));
}

void Step::promote(IndividualId id, double fitness) {
  set("best", std::to_string(id));
  count("promotions");
  const std::int64_t judged =
      journal_.database_->execAndGet("SELECT value FROM tallies WHERE key = 'evaluations'").getInt64();
  decide("promote", id, "", dumped({{"fitness", fitness}, {"evaluations", judged}}));
}

void Step::expel(IndividualId id) {
  auto& q = journal_.statement("UPDATE individuals SET expelled = 1 WHERE id = ?");
  q.bind(1, id);
  q.exec();
  decide("expel", id, "", "");
}

void Step::migrate(const Migration& move) {
  decide("migrate", move.id, "", dumped({{"from", move.from}, {"to", move.to}}));
}

void Step::session(const std::string& what) {
  decide("session", 0, "", what);
}

void Step::event(const std::string& kind, IndividualId id, const std::string& text) {
  auto& q = journal_.statement("INSERT INTO events (at, kind, individual, text) VALUES (?, ?, ?, ?)");
  q.bind(1, now());
  q.bind(2, kind);
  q.bind(3, id);
  q.bind(4, text);
  q.exec();
}

void Step::use_exchange(std::int64_t exchange, IndividualId made_of_it) {
  auto& q = journal_.statement("UPDATE exchanges SET used_by = ? WHERE number = ?");
  q.bind(1, made_of_it);
  q.bind(2, exchange);
  q.exec();
}

}  // namespace cultivar
