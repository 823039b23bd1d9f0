// SPDX-License-Identifier: Apache-2.0
#include "engine/store/summary.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/store/exchanges.hpp"
#include "engine/store/kernel_lines.hpp"
#include "engine/store/rows.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/tool_results.hpp"
#include "engine/store/witness.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

bool is_full(const RunFolder& folder) {
  constexpr std::uintmax_t kLittle = 256 << 10;  // a step needs less
  std::error_code failed;
  const auto space = std::filesystem::space(folder.path(), failed);
  return !failed && space.available < kLittle;
}

// For a record that says that its search runs or waits: sets the process and the age of the heartbeat, which
// is in seconds since 1970 (empty: from a version that recorded none), and the state to frozen or stopped if
// it is not running.
void set_liveness(Summary& s, const RunFolder& folder, const std::string& heartbeat) {
  s.process = RunLock::holder(folder);
  if (!s.process) {
    const auto end = witnessed_end(folder);
    s.state = end ? "failed" : "stopped";
    s.stop_reason = end ? *end
                    : is_full(folder)
                        ? "its process ended without writing why, and its file system is full now: "
                          "free disk space, then resume it with `cultivar resume`"
                        : "its process was killed; resume it with `cultivar resume`";
    return;
  }
  if (heartbeat.empty()) return;
  s.heartbeat_age_s = std::max(0.0, unix_now() - number_in(heartbeat, "heartbeat"));
  if (*s.heartbeat_age_s <= Summary::kFrozenAfter) return;
  s.state = "frozen";
  s.stop_reason = fmt::format(
      "process {0} has recorded nothing for {1:.0f} s: it is suspended (`kill -CONT {0}` lets it go on), or "
      "the disk does not respond",
      *s.process, *s.heartbeat_age_s);
}

}  // namespace

std::optional<SeedRatio> ratio_to_seed(const Record& record, IndividualId id) {
  const auto seed = record.first_seed();
  if (!seed || *seed == id) return std::nullopt;
  if (const auto confirmed = record.confirmation(id); confirmed && !confirmed->workloads.empty()) {
    double logs = 0.0;
    for (const WorkloadResult& row : confirmed->workloads)
      logs += row.incumbent_us > 0.0 && row.median_us > 0.0 ? std::log(row.incumbent_us / row.median_us)
                                                            : std::numeric_limits<double>::quiet_NaN();
    if (!std::isnan(logs)) return SeedRatio{std::exp(logs / double(confirmed->workloads.size())), true};
  }
  Standings standings(record);
  const double own = standings.fitness(id), base = standings.fitness(*seed);
  if (!(own > 0.0) || !(base > 0.0)) return std::nullopt;
  return SeedRatio{own / base, false};
}

namespace {

// By the last event, or by the heartbeat of a process that was killed.
std::optional<double> end_of(SQLite::Database& db) {
  double last = 0.0, heartbeat = 0.0;
  bool told = false;
  each_row(db, "SELECT at, kind = 'stop' FROM events ORDER BY number DESC LIMIT 1",
           [&](SQLite::Statement& row) {
             last = column<double>(row, 0);
             told = column<std::int64_t>(row, 1) != 0;
           });
  if (const std::string text = meta(db, "heartbeat"); !told && !text.empty())
    heartbeat = number_in(text, "heartbeat");
  const double at = std::max(last, heartbeat);
  return at > 0.0 ? std::optional(at) : std::nullopt;
}

}  // namespace

bool Summary::has_device_time() const {
  return measured == 0 || budget.at("device_hours").used > 0.0;
}

Summary summary_of(const Record& record) {
  SQLite::Database& db = record.database();
  const RunFolder folder(record.folder());
  Summary s;
  s.run = meta(db, "name");
  s.task = meta(db, "task");
  s.target = meta(db, "target");
  s.state = meta(db, "state");
  s.stop_reason = meta(db, "stop_reason");
  s.stop = meta(db, "stop");
  s.lost = record.lost_steps();
  s.elapsed_s = number_in(meta(db, "elapsed_s"), "elapsed_s");
  if (s.alive()) set_liveness(s, folder, meta(db, "heartbeat"));
  set_momentary(s, meta(db, "momentary"));
  if (const std::string at = meta(db, "created_at"); !at.empty()) s.started_at = number_in(at, "created_at");
  if (!s.alive()) s.ended_at = end_of(db);
  std::int64_t proposed = 0;
  double device_s = 0.0;
  std::optional<std::int64_t> expelled;
  each_row(db, "SELECT key, value FROM tallies", [&](SQLite::Statement& tally) {
    const auto key = column<std::string>(tally, 0);
    const auto value = column<std::int64_t>(tally, 1);
    if (key == "evaluations") s.evaluations = value;
    if (key == "measured") s.measured = value;
    if (key == "expelled") expelled = value;
    if (key == "duels") s.duels = value;
    if (key == "promotions") s.promotions = value;
    if (key == "proposed") proposed = value;
    if (key == "device_ms") device_s = 1e-3 * static_cast<double>(value);
    for (const Stage stage : all_stages())
      if (key == tally_of_rejections(stage)) s.rejected[stage] = value;
  });
  // Records of earlier versions do not count them.
  s.expelled = expelled ? *expelled
                        : first_of<std::int64_t>(db, "SELECT count(*) FROM individuals WHERE expelled = 1");
  s.evaluations_per_hour = rate_of(record).per_hour();
  s.in_flight = proposed - s.evaluations;
  s.submissions_waiting = static_cast<std::int64_t>(folder.submitted().size());

  const json budget = json_in(meta(db, "budget").empty() ? "{}" : meta(db, "budget"));
  const auto limit = [&](const char* key) {
    return budget.contains(key) && budget[key].is_number() && budget[key] > 0
               ? std::optional(budget[key].get<double>())
               : std::nullopt;
  };
  s.budget["wall"] = {s.elapsed_s, limit("wall")};
  s.budget["evaluations"] = {static_cast<double>(s.evaluations), limit("evaluations")};
  s.budget["device_hours"] = {device_s / 3600.0, limit("device_hours")};
  if (const auto plateau = limit("plateau")) {
    const double promoted = first_of<double>(
        db, "SELECT elapsed_s FROM decisions WHERE kind = 'promote' ORDER BY seq DESC LIMIT 1");
    s.budget["plateau"] = {s.elapsed_s - promoted, plateau};
  }
  s.models = json_in(meta(db, "models").empty() ? "{}" : meta(db, "models"));
  s.tools = tool_use(record);
  s.supervisor = json_in(meta(db, "supervisor").empty() ? "null" : meta(db, "supervisor"));
  s.questions = json_in(meta(db, "questions").empty() ? "null" : meta(db, "questions"));
  s.plan = json_in(meta(db, "plan").empty() ? "null" : meta(db, "plan"));
  s.gate_advice = meta(db, "gate_advice");
  s.undelivered = meta(db, "undelivered");
  if (!s.alive()) {  // no call is pending; unanswered questions are asked again on resume
    const auto [all, unended] = spending_of(record);
    // Killed before a step recorded its first questions.
    if (s.questions.is_null() && unended.calls > 0) s.questions = {{"open", unended.calls}};
    if (s.questions.is_object()) {
      // The usage with which a resumed search starts: the last step did not include all calls that a kill
      // interrupted.
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
  const json environment = json_in(meta(db, "environment"));
  for (const json& device : environment.value("devices", json::array()))
    s.devices.push_back(device.value("description", ""));

  if (const auto id = record.best()) {
    const auto row = record.individual(*id);
    Best b;
    b.id = *id;
    Standings standings(record);
    b.fitness = standings.fitness(*id);
    b.measured = row->individual.fitness;
    // Nothing becomes the best without a confirmation.
    if (const double at = evaluated_at(record, *id, Examination::confirm); at > 0.0) b.found_at = at;
    if (const DuelResult* const duel = standings.duel(*id)) b.gain = std::expm1(duel->all.log_ratio);
    b.unit = meta(db, "unit");
    if (*id == record.first_seed()) b.ratio_to_seed = 1.0;
    if (const auto found = ratio_to_seed(record, *id)) {
      b.ratio_to_seed = found->ratio;
      b.seed_beside = found->beside;
    }
    if (const auto confirmed = record.confirmation(*id)) {
      if (confirmed->fitness > 0.0) b.confirmed = confirmed->fitness;
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
  if (const auto id = record.outstanding())
    s.outstanding = Outstanding{*id, Standings(record).fitness(existing(*id, record.count())),
                                meta(db, "unit"), !record.duels(*id).empty()};
  return s;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Best, id, fitness, measured, gain, unit, ratio_to_seed, seed_beside,
                                   ratios, confirmed, found_at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Outstanding, id, fitness, unit, by_duel)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BudgetUse, used, limit)
CULTIVAR_JSON_PART(Summary, run, task, target, state, stop_reason, stop, lost, elapsed_s, started_at,
                   ended_at, evaluations, evaluations_per_hour, measured, expelled, in_flight,
                   submissions_waiting, duels, promotions, best, outstanding, budget, questions, supervisor,
                   plan, gate_advice, undelivered, tools, devices, process, heartbeat_age_s, challengers,
                   waiting, ending, duel, step, workers)

void to_json(json& j, const Summary& s) {
  write_fields(j, s);
  auto& rejected = j["rejected"] = json::object();
  for (const auto& [stage, count] : s.rejected) rejected[std::string(name_of(stage))] = count;
  j["models"] = s.models.is_object() ? s.models : json::object();
}

using nlohmann::json;

std::string to_body(const Momentary& now) {
  json body{{"challengers", now.challengers}};
  if (now.pause)
    body["pause"] = {{"since", now.pause->since}, {"next_try", now.pause->next_try}, {"why", now.pause->why}};
  if (now.closing) body["closing"] = {{"why", now.closing->why}, {"until", now.closing->until}};
  if (now.duel) body["duel"] = *now.duel;
  if (!now.step.empty()) body["step"] = now.step;
  body["workers"] = now.workers;
  return json_text(body);
}

void set_momentary(Summary& s, const std::string& text) {
  if (text.empty()) return;
  const json body = json_in(text);
  s.challengers = body.value("challengers", std::int64_t{0});
  if (s.alive()) s.workers = body.value("workers", std::vector<WorkersOf>());
  if (s.alive()) s.step = body.value("step", "");
  if (const json closing = body.value("closing", json()); s.alive() && closing.is_object())
    s.ending = Ending{closing.value("why", ""), std::max(0.0, closing.value("until", 0.0) - unix_now())};
  if (const json duel = body.value("duel", json()); s.alive() && duel.is_object()) {
    s.duel = duel.get<DuelNow>();
    s.challengers = std::max<std::int64_t>(0, s.challengers - 1);
  }
  const json pause = body.value("pause", json());
  if (!s.alive() || !pause.is_object()) return;
  s.waiting = Waiting{std::max(0.0, unix_now() - pause.value("since", 0.0)),
                      std::max(0.0, pause.value("next_try", 0.0) - unix_now()), pause.value("why", "")};
}

std::int64_t comparisons_since_judgement(const Record& record) {
  // The inner query reads from the end.
  return record.database()
      .execAndGet(
          "SELECT count(*) FROM decisions WHERE kind IN ('duel', 'confirm') AND seq > coalesce((SELECT seq "
          "FROM decisions WHERE kind = 'judge' ORDER BY seq DESC LIMIT 1), 0)")
      .getInt64();
}

void EvaluationRate::ended(double elapsed_s) {
  ends_.push_back(elapsed_s);
  if (ends_.size() > kMost + 1) ends_.pop_front();
}

double EvaluationRate::per_hour() const {
  if (ends_.size() < kLeast) return 0.0;
  const double last = ends_.back();
  std::size_t from = ends_.size() - 1;
  while (from > 0 && (ends_[from - 1] >= last - kWindow || ends_.size() - from < kFewest)) --from;
  const double seconds = last - ends_[from];
  return seconds > 0.0 ? 3600.0 * static_cast<double>(ends_.size() - 1 - from) / seconds : 0.0;
}

EvaluationRate rate_of(const Record& record) {
  EvaluationRate rate;
  each_row(
      record.database(), "SELECT elapsed_s FROM decisions WHERE kind = 'judge' ORDER BY seq DESC LIMIT ?",
      [&](SQLite::Statement& row) { rate.ends_.push_front(column<double>(row, 0)); },
      static_cast<std::int64_t>(EvaluationRate::kMost + 1));
  return rate;
}

}  // namespace cultivar
