#include "engine/store/record.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/run_folder.hpp"
#include "engine/store/configuration_json.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/run_lock.hpp"
#include "engine/store/samples.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/tool_results.hpp"
#include "engine/store/trouble.hpp"
#include "population/lineage.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

std::string meta(SQLite::Database& db, const char* key) {
  SQLite::Statement q(db, "SELECT value FROM meta WHERE key = ?");
  q.bind(1, key);
  return q.executeStep() ? q.getColumn(0).getString() : std::string();
}

constexpr const char* kIndividual =
    "SELECT i.id, variant_id, source_id, configuration, parents, op, model, usd, tokens, island, note, "
    "proposed_at, state, "
    "expelled, stage, reason, machine_code, duplicate_of, fitness, workload_values, judged_at "
    "FROM individuals i JOIN sources s ON s.number = i.source ";

IndividualRow row_of(SQLite::Statement& q) {
  IndividualRow row;
  Individual& i = row.individual;
  i.id = q.getColumn(0).getInt64();
  i.variant_id = q.getColumn(1).getString();
  i.source_id = q.getColumn(2).getString();
  i.configuration = configuration_from_json(json::parse(q.getColumn(3).getString()));
  i.descent.parents = json::parse(q.getColumn(4).getString()).get<std::vector<IndividualId>>();
  i.descent.op = q.getColumn(5).getString();
  i.descent.model = q.getColumn(6).getString();
  i.descent.usd = q.getColumn(7).getDouble();
  i.descent.tokens = q.getColumn(8).getInt64();
  i.descent.island = q.getColumn(9).getInt();
  i.descent.note = q.getColumn(10).getString();
  row.proposed_at = q.getColumn(11).getDouble();
  row.state = static_cast<IndividualState>(q.getColumn(12).getInt());
  row.expelled = q.getColumn(13).getInt() != 0;
  row.stage = q.getColumn(14).getString();
  row.reason = q.getColumn(15).getString();
  i.machine_code = q.getColumn(16).getString();
  i.duplicate_of = q.getColumn(17).getInt64();
  i.fitness = q.getColumn(18).getDouble();
  i.workload_values = json::parse(q.getColumn(19).getString()).get<std::vector<double>>();
  i.measured = row.state == IndividualState::measured && !row.expelled;
  row.judged_at = q.getColumn(20).getDouble();
  return row;
}

std::optional<Evaluation> evaluation_of(SQLite::Database& db, IndividualId id, const char* kind) {
  SQLite::Statement q(
      db,
      "SELECT body, samples FROM evaluations WHERE individual = ? AND kind = ? ORDER BY number DESC LIMIT 1");
  q.bind(1, id);
  q.bind(2, kind);
  if (!q.executeStep()) return std::nullopt;
  Evaluation evaluation = json::parse(q.getColumn(0).getString()).get<Evaluation>();
  const SQLite::Column blob = q.getColumn(1);
  const std::string bytes(static_cast<const char*>(blob.getBlob()),
                          static_cast<std::size_t>(blob.getBytes()));
  if (!unpack_samples(bytes, evaluation))
    throw SQLite::Exception(fmt::format("the samples of individual {} are damaged", id));
  return evaluation;
}

// A reader, too, makes files beside a database that has a write-ahead log. Where it may not (somebody else's
// run, a read-only disk), a database without one, which nobody writes to then, is read as it lies.
std::pair<std::shared_ptr<SQLite::Database>, int> open_to_read(const std::filesystem::path& file) {
  try {
    auto db = std::make_shared<SQLite::Database>(file.string(), SQLite::OPEN_READONLY);
    db->setBusyTimeout(5000);
    const int version = schema_version(*db);
    return {std::move(db), version};
  } catch (const SQLite::Exception& e) {
    std::error_code ignored;
    if ((e.getErrorCode() != SQLITE_CANTOPEN && e.getErrorCode() != SQLITE_READONLY) ||
        std::filesystem::exists(file.string() + "-wal", ignored))
      throw;
    std::string uri = "file:";
    for (const char c : std::filesystem::absolute(file).string())
      uri += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", c) : std::string(1, c);
    auto db =
        std::make_shared<SQLite::Database>(uri + "?immutable=1", SQLite::OPEN_READONLY | SQLITE_OPEN_URI);
    const int version = schema_version(*db);
    return {std::move(db), version};
  }
}

}  // namespace

Record::Record(std::shared_ptr<SQLite::Database> database, std::filesystem::path run_folder)
    : database_(std::move(database)), folder_(std::move(run_folder)) {}
Record::Record(Record&&) noexcept = default;
Record& Record::operator=(Record&&) noexcept = default;
Record::~Record() = default;

Expected<Record> Record::open(const std::filesystem::path& run_folder) {
  const RunFolder folder(run_folder);
  std::error_code ec;
  if (!std::filesystem::exists(folder.database(), ec))
    return failure("open run",
                   fmt::format("{} holds no run (there is no run.db in it)", run_folder.string()));
  try {
    auto [db, version] = open_to_read(folder.database());
    if (version == 0)
      return failure(
          "open run",
          fmt::format("{} is damaged: `cultivar resume {}` goes back to the newest good checkpoint",
                      folder.database().string(), run_folder.string()));
    if (version > kSchemaVersion)  // an older one lacks tables that nothing here asks for
      return failure("open run", fmt::format("{} has format {}, this program reads format {}",
                                             folder.database().string(), version, kSchemaVersion));
    return Record(std::move(db), run_folder);
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "open run", folder.database()));
  }
}

RunFacts Record::facts() const {
  RunFacts facts;
  facts.name = meta(*database_, "name");
  facts.config_yaml = meta(*database_, "config");
  facts.task_name = meta(*database_, "task");
  facts.target = meta(*database_, "target");
  facts.unit_of_fitness = meta(*database_, "unit");
  facts.task_folder = std::filesystem::absolute(RunFolder(folder_).tasks() / facts.task_name).string();
  facts.task_files = json::parse(meta(*database_, "task_files"));
  facts.environment = json::parse(meta(*database_, "environment"));
  facts.workloads = json::parse(meta(*database_, "workloads")).get<std::vector<std::string>>();
  facts.created_at = std::stod(meta(*database_, "created_at"));
  return facts;
}

Summary Record::summary() const {
  SQLite::Database& db = *database_;
  Summary s;
  s.run = meta(db, "name");
  s.task = meta(db, "task");
  s.target = meta(db, "target");
  s.state = meta(db, "state");
  s.stop_reason = meta(db, "stop_reason");
  s.elapsed_s = std::stod(meta(db, "elapsed_s"));
  if (s.state == "running" && !RunLock::holder(RunFolder(folder_))) {
    s.state = "stopped";
    s.stop_reason = "its process was killed; go on with `cultivar resume`";
  }
  std::int64_t proposed = 0;
  SQLite::Statement tallies(db, "SELECT key, value FROM tallies");
  while (tallies.executeStep()) {
    const std::string key = tallies.getColumn(0).getString();
    const std::int64_t value = tallies.getColumn(1).getInt64();
    if (key == "evaluations") s.evaluations = value;
    if (key == "measured") s.measured = value;
    if (key == "duels") s.duels = value;
    if (key == "promotions") s.promotions = value;
    if (key == "proposed") proposed = value;
    if (key.starts_with("rejected ")) s.rejected[key.substr(9)] = value;
  }
  s.in_flight = proposed - s.evaluations;
  s.submissions_waiting = static_cast<std::int64_t>(RunFolder(folder_).submitted().size());

  const json budget = json::parse(meta(db, "budget").empty() ? "{}" : meta(db, "budget"));
  const auto limit = [&](const char* key) {
    return budget.contains(key) && budget[key].is_number() && budget[key] > 0
               ? std::optional(budget[key].get<double>())
               : std::nullopt;
  };
  s.budget["wall"] = {s.elapsed_s, limit("wall")};
  s.budget["evaluations"] = {static_cast<double>(s.evaluations), limit("evaluations")};
  s.models = json::parse(meta(db, "models").empty() ? "{}" : meta(db, "models"));
  s.tools = tool_use(*this);
  s.questions = json::parse(meta(db, "questions").empty() ? "null" : meta(db, "questions"));
  if (s.state != "running") {  // nothing is out; what was not answered is asked again when it goes on
    const auto [all, unended] = spending_of(*this);
    // Killed before a step told of its first questions.
    if (s.questions.is_null() && unended.calls > 0) s.questions = {{"open", unended.calls}};
    if (s.questions.is_object()) {
      // As a search that goes on begins: the last step did not know of all that a kill cut short.
      s.questions["usd"] = all.usd;
      s.questions["tokens"] = all.usage.total();
      s.questions["unended"] = {
          {"calls", unended.calls}, {"tokens", unended.usage.total()}, {"usd", unended.usd}};
      s.questions["in_flight"] = 0;
      s.questions["paused"] = "";
      for (json& model : s.models) model["in_flight"] = 0;
    }
  }
  if (s.questions.is_object()) {
    s.budget["usd"] = {s.questions.value("usd", 0.0), limit("usd")};
    s.budget["tokens"] = {s.questions.value("tokens", 0.0), limit("tokens")};
  }
  const json environment = json::parse(meta(db, "environment"));
  for (const json& device : environment.value("devices", json::array()))
    s.devices.push_back(device.value("description", ""));

  if (const auto id = best()) {
    const auto row = individual(*id);
    Best b;
    b.id = *id;
    b.fitness = row->individual.fitness;
    b.unit = meta(db, "unit");
    if (const auto seed = first_seed()) {
      const double base = individual(*seed)->individual.fitness;
      if (base > 0) b.ratio_to_seed = b.fitness / base;
    }
    if (const auto confirmed = confirmation(*id)) {
      std::map<std::string, std::vector<double>> logs;
      for (const WorkloadResult& workload : confirmed->workloads)
        for (const auto& [contender, ratio] : workload.ratios)
          if (ratio > 0) logs[contender].push_back(std::log(ratio));
      for (const auto& [contender, values] : logs) {
        double sum = 0;
        for (const double value : values) sum += value;
        b.ratios[contender] = std::exp(sum / static_cast<double>(values.size()));
      }
    }
    s.best = std::move(b);
  }
  if (const auto id = outstanding())
    s.outstanding = Outstanding{*id, individual(*id)->individual.fitness, meta(db, "unit")};
  return s;
}

void to_json(json& j, const Summary& s) {
  j = {{"run", s.run},
       {"task", s.task},
       {"target", s.target},
       {"state", s.state},
       {"stop_reason", s.stop_reason},
       {"elapsed_s", s.elapsed_s},
       {"evaluations", s.evaluations},
       {"measured", s.measured},
       {"rejected", json(s.rejected)},
       {"in_flight", s.in_flight},
       {"submissions_waiting", s.submissions_waiting},
       {"duels", s.duels},
       {"promotions", s.promotions},
       {"best", nullptr},
       {"outstanding", nullptr},
       {"budget", json::object()},
       {"models", s.models.is_object() ? s.models : json::object()},
       {"questions", s.questions},
       {"tools", s.tools},
       {"devices", s.devices}};
  for (const auto& [kind, use] : s.budget)
    j["budget"][kind] = {{"used", use.used}, {"limit", use.limit ? json(*use.limit) : json(nullptr)}};
  if (s.outstanding)
    j["outstanding"] = {
        {"id", s.outstanding->id}, {"fitness", s.outstanding->fitness}, {"unit", s.outstanding->unit}};
  if (s.best)
    j["best"] = {{"id", s.best->id},
                 {"fitness", s.best->fitness},
                 {"unit", s.best->unit},
                 {"ratio_to_seed", s.best->ratio_to_seed ? json(*s.best->ratio_to_seed) : json(nullptr)},
                 {"ratios", json(s.best->ratios)}};
}

std::int64_t Record::count() const {
  return database_->execAndGet("SELECT coalesce(max(id), 0) FROM individuals").getInt64();
}

std::optional<IndividualRow> Record::individual(IndividualId id) const {
  SQLite::Statement q(*database_, std::string(kIndividual) + "WHERE i.id = ?");
  q.bind(1, id);
  if (!q.executeStep()) return std::nullopt;
  return row_of(q);
}

std::optional<IndividualId> Record::find(const std::string& text) const {
  if (text == "best") return best();
  if (!text.empty() && text.size() < 12 &&
      std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    const IndividualId id = std::stoll(text);
    SQLite::Statement q(*database_, "SELECT 1 FROM individuals WHERE id = ?");
    q.bind(1, id);
    if (q.executeStep()) return id;
  }
  if (text.size() < 4 || !std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); }))
    return std::nullopt;
  SQLite::Statement q(*database_,
                      "SELECT id FROM individuals WHERE variant_id >= ? AND variant_id < ? LIMIT 2");
  q.bind(1, text);
  q.bind(2, text + "g");
  if (!q.executeStep()) return std::nullopt;
  const IndividualId id = q.getColumn(0).getInt64();
  return q.executeStep() ? std::nullopt : std::optional(id);
}

std::optional<IndividualId> Record::with_variant(const std::string& variant_id) const {
  SQLite::Statement q(*database_, "SELECT min(id) FROM individuals WHERE variant_id = ?");
  q.bind(1, variant_id);
  if (!q.executeStep() || q.getColumn(0).isNull()) return std::nullopt;
  return q.getColumn(0).getInt64();
}

std::string Record::source(IndividualId id) const {
  SQLite::Statement q(
      *database_, "SELECT text FROM sources WHERE number = (SELECT source FROM individuals WHERE id = ?)");
  q.bind(1, id);
  return q.executeStep() ? q.getColumn(0).getString() : std::string();
}

std::string Record::source_named(const std::string& source_id) const {
  SQLite::Statement q(*database_, "SELECT text FROM sources WHERE source_id = ?");
  q.bind(1, source_id);
  return q.executeStep() ? q.getColumn(0).getString() : std::string();
}

std::optional<Evaluation> Record::evaluation(IndividualId id) const {
  return evaluation_of(*database_, id, "search");
}
std::optional<Evaluation> Record::confirmation(IndividualId id) const {
  return evaluation_of(*database_, id, "confirm");
}

std::optional<Profile> Record::profile(IndividualId id, const std::string& workload) const {
  SQLite::Statement q(
      *database_,
      "SELECT body FROM evaluations WHERE individual = ? AND kind = 'profile' ORDER BY number DESC");
  q.bind(1, id);
  while (q.executeStep()) {
    Profile profile = json::parse(q.getColumn(0).getString()).get<Profile>();
    if (workload.empty() || profile.workload == workload) return profile;
  }
  return std::nullopt;
}

std::optional<IndividualId> Record::best() const {
  const std::string id = meta(*database_, "best");
  if (id.empty()) return std::nullopt;
  return std::stoll(id);
}

// Told by the newest comparison: "challenge" begins a duel or a confirmation, perhaps again after trouble.
std::optional<IndividualId> Record::outstanding() const {
  SQLite::Statement q(*database_,
                      "SELECT kind, individual, body FROM decisions WHERE kind IN ('challenge', 'duel', "
                      "'promote', 'expel') ORDER BY seq DESC");
  IndividualId begun = 0;
  while (q.executeStep()) {
    const std::string kind = q.getColumn(0).getString();
    const IndividualId id = q.getColumn(1).getInt64();
    if (begun != 0 && id != begun) break;
    if (kind == "challenge") {
      begun = id;
      continue;
    }
    if (kind == "duel" && q.getColumn(2).getString() == "better") return id;
    break;
  }
  return begun != 0 && !best() ? std::optional(begun) : std::nullopt;
}

std::set<std::pair<IndividualId, std::string>> Record::put_off() const {
  SQLite::Statement q(*database_, "SELECT individual, body FROM decisions WHERE kind = 'put_off'");
  std::set<std::pair<IndividualId, std::string>> all;
  while (q.executeStep()) all.emplace(q.getColumn(0).getInt64(), q.getColumn(1).getString());
  return all;
}

std::optional<IndividualId> Record::first_seed() const {
  // Seeds come before everything else, so this stops after a handful of rows.
  SQLite::Statement q(
      *database_,
      "SELECT id FROM individuals WHERE op = 'seed' AND state = 1 AND id <= 1000 ORDER BY id LIMIT 1");
  if (!q.executeStep()) return std::nullopt;
  return q.getColumn(0).getInt64();
}

std::vector<PromotionRow> Record::promotions() const {
  std::vector<PromotionRow> rows;
  SQLite::Statement q(
      *database_, "SELECT individual, body, elapsed_s FROM decisions WHERE kind = 'promote' ORDER BY seq");
  while (q.executeStep()) {
    const json body = json::parse(q.getColumn(1).getString());
    rows.push_back({q.getColumn(0).getInt64(), body.at("evaluations").get<std::int64_t>(),
                    q.getColumn(2).getDouble(), body.at("fitness").get<double>()});
  }
  return rows;
}

std::vector<DuelRow> Record::duels(IndividualId challenger) const {
  std::vector<DuelRow> rows;
  SQLite::Statement q(
      *database_,
      "SELECT number, challenger, incumbent, verdict, report, at FROM duels WHERE ?1 = 0 OR challenger = ?1 "
      "ORDER BY number");
  q.bind(1, challenger);
  while (q.executeStep())
    rows.push_back({q.getColumn(0).getInt64(), q.getColumn(1).getInt64(), q.getColumn(2).getInt64(),
                    q.getColumn(3).getString(), json::parse(q.getColumn(4).getString()),
                    q.getColumn(5).getDouble()});
  return rows;
}

std::optional<double> Record::gain_by_duel(IndividualId challenger) const {
  std::optional<double> gain;
  for (const DuelRow& duel : duels(challenger))
    if (const auto ratio = duel.report.value("/decision/log_ratio"_json_pointer, json());
        duel.verdict == "better" && ratio.is_number())
      gain = std::expm1(ratio.get<double>());
  return gain;
}

std::vector<IndividualRow> Record::lineage(IndividualId id) const {
  std::vector<IndividualRow> rows;
  const auto parents_of = [&](IndividualId child) {
    const auto row = individual(child);
    return row ? row->individual.descent.parents : std::vector<IndividualId>();
  };
  for (const IndividualId ancestor : chain_to_seed(id, parents_of))
    if (auto row = individual(ancestor)) rows.push_back(std::move(*row));
  return rows;
}

std::vector<IndividualRow> Record::paced_lineage(IndividualId id) const {
  std::vector<IndividualRow> rows = lineage(id);
  double pace = 1.0;
  SQLite::Statement q(
      *database_,
      "SELECT kind, individual, body FROM decisions WHERE kind IN ('judge', 'pace') ORDER BY seq");
  while (q.executeStep()) {
    const IndividualId judged = q.getColumn(1).getInt64();
    if (q.getColumn(0).getString() == "pace")
      pace = json::parse(q.getColumn(2).getString()).at("pace").get<double>();
    else
      for (IndividualRow& row : rows)
        if (row.individual.id == judged) row.pace = pace;
  }
  return rows;
}

std::vector<IndividualId> Record::descendants(IndividualId id) const {
  std::vector<IndividualId> children;
  SQLite::Statement q(*database_,
                      "SELECT i.id FROM individuals i, json_each(i.parents) p WHERE i.id > ?1 AND p.value = "
                      "?1 ORDER BY i.id");
  q.bind(1, id);
  while (q.executeStep()) children.push_back(q.getColumn(0).getInt64());
  return children;
}

std::vector<IndividualRow> Record::list(Order order, std::int64_t limit, std::int64_t offset) const {
  std::vector<IndividualRow> rows;
  const char* how = order == Order::newest ? "ORDER BY i.id DESC LIMIT ? OFFSET ?"
                                           : "WHERE state = 1 ORDER BY fitness DESC, i.id LIMIT ? OFFSET ?";
  SQLite::Statement q(*database_, std::string(kIndividual) + how);
  q.bind(1, limit);
  q.bind(2, offset);
  while (q.executeStep()) rows.push_back(row_of(q));
  return rows;
}

void Record::each_individual(const std::function<void(const IndividualRow&)>& visit) const {
  SQLite::Statement q(*database_, std::string(kIndividual) + "ORDER BY i.id");
  while (q.executeStep()) visit(row_of(q));
}

void Record::each_decision(const std::function<void(const DecisionRow&)>& visit) const {
  SQLite::Statement q(*database_,
                      "SELECT seq, kind, individual, stream, body, elapsed_s FROM decisions ORDER BY seq");
  while (q.executeStep())
    visit({q.getColumn(0).getInt64(), q.getColumn(1).getString(), q.getColumn(2).getInt64(),
           q.getColumn(3).getString(), q.getColumn(4).getString(), q.getColumn(5).getDouble()});
}

std::vector<EventRow> Record::events(std::int64_t limit, std::int64_t after) const {
  // The newest `limit` of those after `after`, oldest first.
  std::vector<EventRow> rows;
  SQLite::Statement q(
      *database_,
      "SELECT number, at, kind, text, individual FROM events WHERE number > ? ORDER BY number DESC LIMIT ?");
  q.bind(1, after);
  q.bind(2, limit);
  while (q.executeStep())
    rows.push_back({q.getColumn(0).getInt64(), q.getColumn(1).getDouble(), q.getColumn(2).getString(),
                    q.getColumn(3).getString(), q.getColumn(4).getInt64()});
  std::ranges::reverse(rows);
  return rows;
}

}  // namespace cultivar
