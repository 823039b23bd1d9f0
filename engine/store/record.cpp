// SPDX-License-Identifier: Apache-2.0
#include "engine/store/record.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <algorithm>
#include <cctype>

#include "engine/store/rows.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/witness.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr const char* kIndividual =
    "SELECT i.id, variant_id, source_id, configuration, parents, op, model, usd, tokens, island, note, "
    "proposed_at, state, expelled, stage, reason, machine_code, duplicate_of, fitness, workload_values, "
    "judged_at FROM individuals i JOIN sources s ON s.number = i.source ";

IndividualRow row_of(SQLite::Statement& q) {
  IndividualRow row;
  Individual& i = row.individual;
  Descent& d = i.descent;
  std::string origin;
  read_row(q, i.id, i.variant_id, i.source_id, i.configuration, d.parents, origin, d.model, d.usd, d.tokens,
           d.island, d.note, row.proposed_at, row.state, row.expelled, row.stage, row.reason, i.machine_code,
           i.duplicate_of, i.fitness, i.workload_values, row.judged_at);
  set_origin(d, origin);
  require_plausible(row);
  i.measured = row.state == IndividualState::measured && !row.expelled;
  return row;
}

std::optional<Examination> examination_named(const std::string& name) {
  for (const Examination each : {Examination::search, Examination::confirm})
    if (name == name_of(each)) return each;
  return std::nullopt;
}

// A value that the record holds by its name.
template <class Named>
auto known(const std::string& word, const Named& named) {
  const auto value = named(word);
  if (!value) throw InconsistentRecord(fmt::format("the record holds the unknown value '{}'", word));
  return *value;
}

std::optional<Evaluation> evaluation_of(SQLite::Database& db, IndividualId id, Examination kind) {
  auto q = query(
      db,
      "SELECT body, samples FROM evaluations WHERE individual = ? AND kind = ? ORDER BY number DESC LIMIT 1",
      id, std::string(name_of(kind)));
  if (!q.executeStep()) return std::nullopt;
  auto evaluation = column<Evaluation>(q, 0);
  if (!unpack_samples(column<std::string>(q, 1), evaluation))
    throw SQLite::Exception(fmt::format("the samples of individual {} are damaged", id));
  return evaluation;
}

// Reading a database with a write-ahead log creates files next to it. Where this is not permitted (another
// user's run, a read-only disk), a database without a log has no writer and is opened as immutable.
std::pair<std::shared_ptr<SQLite::Database>, int> open_to_read(const std::filesystem::path& file) {
  std::error_code none;  // SQLite would wait for the other end of a pipe
  if (std::filesystem::exists(file, none) && !std::filesystem::is_regular_file(file, none))
    throw SQLite::Exception("it is not a regular file");
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

std::string_view name_of(Examination examination) {
  return examination == Examination::search ? "search" : "confirm";
}

Record::Record(std::shared_ptr<SQLite::Database> database, std::filesystem::path run_folder)
    : database_(std::move(database)), folder_(std::move(run_folder)) {}
Record::Record(Record&&) noexcept = default;
Record& Record::operator=(Record&&) noexcept = default;
Record::~Record() = default;

Expected<Record> Record::open(const std::filesystem::path& run_folder) {
  const RunFolder folder(run_folder);
  std::error_code ec;
  if (!std::filesystem::is_regular_file(folder.database(), ec))
    return failure("open run", fmt::format("{} is not a run: it holds no run.db", run_folder.string()));
  try {
    auto [db, version] = open_to_read(folder.database());
    if (version == 0)
      return failure("open run", fmt::format("{} is damaged: {}", folder.database().string(),
                                             remedy_of_damage(run_folder)));
    if (version > kSchemaVersion)  // an older one only lacks tables that are checked for before use
      return failure("open run", fmt::format("{} has format {}, but this program reads format {}",
                                             folder.database().string(), version, kSchemaVersion));
    if (const std::string foreign = foreign_object(*db); !foreign.empty())
      return failure("open run",
                     fmt::format("{} holds the {}, which no run has: another program changed it. {}",
                                 folder.database().string(), foreign, remedy_of_damage(run_folder)));
    return Record(std::move(db), run_folder);
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "open run", folder.database()));
  }
}

std::string Record::written_by() const {
  const std::string version = meta(*database_, "version");
  return version.empty() ? "an earlier version of cultivar" : "cultivar " + version;
}

RunFacts Record::facts() const {
  RunFacts facts;
  facts.name = meta(*database_, "name");
  facts.config_yaml = meta(*database_, "config");
  facts.task_name = meta(*database_, "task");
  facts.target = meta(*database_, "target");
  facts.unit_of_fitness = meta(*database_, "unit");
  facts.task_folder = std::filesystem::absolute(RunFolder(folder_).tasks() / facts.task_name).string();
  facts.task_files = json_in(meta(*database_, "task_files"));
  require_inside(facts);
  facts.environment = json_in(meta(*database_, "environment"));
  facts.workloads = json_in(meta(*database_, "workloads")).get<std::vector<std::string>>();
  facts.created_at = number_in(meta(*database_, "created_at"), "created_at");
  return facts;
}

std::string Record::lost_steps() const {
  return cultivar::lost_steps(*database_, RunFolder(folder_));
}

std::int64_t Record::count() const {
  return database_->execAndGet("SELECT coalesce(max(id), 0) FROM individuals").getInt64();
}

std::optional<IndividualRow> Record::individual(IndividualId id) const {
  auto q = query(*database_, std::string(kIndividual) + "WHERE i.id = ?", id);
  if (!q.executeStep()) return std::nullopt;
  return row_of(q);
}

std::optional<IndividualId> Record::find(const std::string& text) const {
  if (text == "best") return best();
  if (!text.empty() && text.size() < 12 &&
      std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    const IndividualId id = std::stoll(text);
    if (first_of<int>(*database_, "SELECT 1 FROM individuals WHERE id = ?", id) == 1) return id;
  }
  if (text.size() < 4 || !std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); }))
    return std::nullopt;
  auto q = query(*database_, "SELECT id FROM individuals WHERE variant_id >= ? AND variant_id < ? LIMIT 2",
                 text, text + "g");
  if (!q.executeStep()) return std::nullopt;
  const auto id = column<IndividualId>(q, 0);
  return q.executeStep() ? std::nullopt : std::optional(id);
}

std::string Record::source(IndividualId id) const {
  return first_of<std::string>(
      *database_, "SELECT text FROM sources WHERE number = (SELECT source FROM individuals WHERE id = ?)",
      id);
}

std::string Record::source_named(const std::string& source_id) const {
  return first_of<std::string>(*database_, "SELECT text FROM sources WHERE source_id = ?", source_id);
}

std::optional<Evaluation> Record::evaluation(IndividualId id) const {
  return evaluation_of(*database_, id, Examination::search);
}
std::optional<Evaluation> Record::confirmation(IndividualId id) const {
  return evaluation_of(*database_, id, Examination::confirm);
}

std::optional<Profile> Record::profile(IndividualId id, const std::string& workload) const {
  auto q = query(
      *database_,
      "SELECT body FROM evaluations WHERE individual = ? AND kind = 'profile' ORDER BY number DESC", id);
  while (q.executeStep())
    if (auto profile = column<Profile>(q, 0); workload.empty() || profile.workload == workload)
      return profile;
  return std::nullopt;
}

std::optional<IndividualId> Record::best() const {
  const std::string id = meta(*database_, "best");
  if (id.empty()) return std::nullopt;
  return existing(static_cast<IndividualId>(number_in(id, "best")), count());
}

// Derived from the newest comparison: "challenge" starts a duel or a confirmation, possibly again after an
// error.
std::optional<IndividualId> Record::outstanding() const {
  SQLite::Statement q(*database_,
                      "SELECT kind, individual, body FROM decisions WHERE kind IN ('challenge', 'duel', "
                      "'promote', 'expel') ORDER BY seq DESC");
  IndividualId begun = 0;
  while (q.executeStep()) {
    const auto kind = decision_named(column<std::string>(q, 0));
    const auto id = column<IndividualId>(q, 1);
    if (begun != 0 && id != begun) break;
    if (kind == DecisionKind::challenge) {
      begun = id;
      continue;
    }
    if (kind == DecisionKind::duel && duel_body(column<std::string>(q, 2)).verdict == Verdict::better)
      return id;
    break;
  }
  return begun != 0 && !best() ? std::optional(begun) : std::nullopt;
}

std::set<std::pair<IndividualId, Examination>> Record::put_off() const {
  std::set<std::pair<IndividualId, Examination>> all;
  // Bodies in JSON are faults of the host, after which an evaluation may be repeated more often.
  each_row(*database_, "SELECT individual, body FROM decisions WHERE kind = 'put_off' AND body NOT LIKE '{%'",
           [&](SQLite::Statement& row) {
             all.emplace(column<IndividualId>(row, 0), known(column<std::string>(row, 1), examination_named));
           });
  return all;
}

std::optional<IndividualId> Record::first_seed() const {
  // Seeds come first, so this stops after a few rows.
  const auto id = first_of<IndividualId>(
      *database_,
      "SELECT id FROM individuals WHERE op = 'seed' AND state = 1 AND id <= 1000 ORDER BY id LIMIT 1");
  return id == 0 ? std::nullopt : std::optional(id);
}

std::vector<PromotionRow> Record::promotions() const {
  std::vector<PromotionRow> rows;
  each_row(*database_,
           "SELECT individual, body, elapsed_s FROM decisions WHERE kind = 'promote' ORDER BY seq",
           [&](SQLite::Statement& row) {
             const auto body = column<json>(row, 1);
             rows.push_back({column<IndividualId>(row, 0), body.at("evaluations").get<std::int64_t>(),
                             column<double>(row, 2), body.at("fitness").get<double>()});
           });
  return rows;
}

std::vector<DuelRow> Record::duels(IndividualId challenger) const {
  std::vector<DuelRow> rows;
  each_row(
      *database_,
      "SELECT number, challenger, incumbent, verdict, report, at FROM duels WHERE ?1 = 0 OR challenger = ?1 "
      "ORDER BY number",
      [&](SQLite::Statement& row) {
        DuelRow& d = rows.emplace_back();
        read_row(row, d.id, d.challenger, d.incumbent);
        d.verdict = known(column<std::string>(row, 3), verdict_named);
        read_columns(row, 4, d.report, d.at);
      },
      challenger);
  return rows;
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
  each_row(*database_,
           "SELECT kind, individual, body FROM decisions WHERE kind IN ('judge', 'pace') ORDER BY seq",
           [&](SQLite::Statement& decision) {
             if (decision_named(column<std::string>(decision, 0)) == DecisionKind::pace)
               pace = column<json>(decision, 2).at("pace").get<double>();
             else
               for (IndividualRow& row : rows)
                 if (row.individual.id == column<IndividualId>(decision, 1)) row.pace = pace;
           });
  Standings standings(*this);
  for (IndividualRow& row : rows)
    if (standings.duel(row.individual.id)) row.by_duel = standings.fitness(row.individual.id);
  return rows;
}

std::vector<IndividualId> Record::descendants(IndividualId id) const {
  std::vector<IndividualId> children;
  each_row(
      *database_,
      "SELECT i.id FROM individuals i, json_each(i.parents) p WHERE i.id > ?1 AND p.value = ?1 ORDER BY i.id",
      [&](SQLite::Statement& row) { children.push_back(column<IndividualId>(row, 0)); }, id);
  return children;
}

std::vector<IndividualRow> Record::list(Order order, std::int64_t limit, std::int64_t offset) const {
  std::vector<IndividualRow> rows;
  const char* how = order == Order::newest ? "ORDER BY i.id DESC LIMIT ? OFFSET ?"
                                           : "WHERE state = 1 ORDER BY fitness DESC, i.id LIMIT ? OFFSET ?";
  each_row(
      *database_, std::string(kIndividual) + how,
      [&](SQLite::Statement& row) { rows.push_back(row_of(row)); }, limit, offset);
  return rows;
}

void Record::each_individual(const std::function<void(const IndividualRow&)>& visit) const {
  each_row(*database_, std::string(kIndividual) + "ORDER BY i.id",
           [&](SQLite::Statement& row) { visit(row_of(row)); });
}

void Record::each_decision(const std::function<void(const DecisionRow&)>& visit, std::int64_t after) const {
  each_row(
      *database_,
      "SELECT seq, kind, individual, stream, body, elapsed_s FROM decisions WHERE seq > ? ORDER BY seq",
      [&](SQLite::Statement& row) {
        DecisionRow d;
        const auto kind = column<std::string>(row, 1);
        const auto decision = decision_named(kind);
        read_row(row, d.seq);
        if (!decision)
          throw UnknownDecision(fmt::format(
              "decision {} of {} is of kind '{}', which cultivar {} does not know. The record was written by "
              "{}: {}",
              d.seq, folder_.string(), kind, CULTIVAR_VERSION, written_by(),
              written_by() == "cultivar " CULTIVAR_VERSION
                  ? "it is damaged, or from a newer build of that version. In the first case, move run.db "
                    "and run.db-wal aside and copy the newest file of checkpoints/ to run.db"
                  : "use that version"));
        d.kind = *decision;
        read_columns(row, 2, d.individual, d.stream, d.body, d.elapsed_s);
        require_plausible(d);
        visit(d);
      },
      after);
}

std::vector<EventRow> Record::events(std::int64_t limit, std::int64_t after) const {
  // The newest `limit` events after `after`, oldest first.
  std::vector<EventRow> rows;
  each_row(
      *database_,
      "SELECT number, at, kind, text, individual FROM events WHERE number > ? ORDER BY number DESC LIMIT ?",
      [&](SQLite::Statement& row) {
        EventRow& e = rows.emplace_back();
        read_row(row, e.id, e.at, e.kind, e.text, e.individual);
      },
      after, limit);
  std::ranges::reverse(rows);
  return rows;
}

IndividualId find_individual(const Record& record, const std::string& text, const std::string& lister) {
  if (text == "best" || text == "seed") {
    const auto id = text == "best" ? record.best() : record.first_seed();
    if (id) return *id;
    if (text == "best" && record.first_seed())
      throw InputError(fmt::format(
          "this run has no best kernel yet: {}. Name an individual by its number",
          record.outstanding() ? fmt::format("the confirmation of #{} is pending", *record.outstanding())
                               : std::string("every measured kernel awaits confirmation or failed it")));
    throw InputError(
        fmt::format("no {} has been measured in this run yet", text == "best" ? "kernel" : "seed"));
  }
  const std::string digits = text.starts_with('#') ? text.substr(1) : text;
  if (const auto id = record.find(digits)) return *id;
  const bool draft =
      text.size() > 1 && text[0] == 'd' && text.find_first_not_of("0123456789", 1) == std::string::npos;
  const bool prefix =  // as opposed to a number that does not exist
      digits.size() >= 4 &&
      (digits.size() >= 8 || digits.find_first_not_of("0123456789") != std::string::npos) &&
      digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  const bool short_prefix = !prefix && !draft && digits.size() < 4 &&
                            digits.find_first_not_of("0123456789") != std::string::npos &&
                            digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  throw InputError(fmt::format(
      "{} '{}'{}. Valid names are 1 to {}, `best` and `seed`; {} shows them{}",
      prefix ? "no individual of this run, or more than one, has an id that starts with"
             : "this run has no individual",
      text, short_prefix ? " (of an id, at least four digits are needed)" : "", record.count(), lister,
      draft ? ". A draft such as d1 has that name only in the conversation that created it; the tool "
              "list_lineage has the names of others' drafts"
            : ""));
}

}  // namespace cultivar
