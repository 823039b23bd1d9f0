#include "engine/agent/run_bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "engine/recorded_run.hpp"
#include "engine/store/names.hpp"
#include "engine/store/run_lock.hpp"
#include "engine/submissions.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostRemarks = 12;

Record open_record(const fs::path& folder) {
  auto record = Record::open(folder);
  if (!record) throw std::runtime_error(record.error().message);
  return std::move(*record);
}

KernelRow row_of(const IndividualRow& row, IndividualId best, const std::set<IndividualId>& promoted) {
  const Individual& i = row.individual;
  KernelRow shown;
  shown.id = std::to_string(i.id);
  for (const IndividualId parent : i.descent.parents) shown.parents.push_back(std::to_string(parent));
  shown.state = row.state == IndividualState::proposed ? "in flight" : i.measured ? "measured" : "rejected";
  shown.stage = row.expelled ? "confirm" : row.stage;
  shown.reason = row.expelled ? "measured, but wrong when it was confirmed on fresh inputs and unseen shapes"
                              : row.reason;
  shown.fitness = i.fitness;
  shown.best = i.id == best;
  shown.was_best = promoted.contains(i.id);
  shown.op = i.descent.op;
  shown.note = i.descent.note;
  shown.configuration = i.configuration;
  return shown;
}

std::set<IndividualId> promoted_in(const Record& record) {
  std::set<IndividualId> promoted;
  for (const PromotionRow& promotion : record.promotions()) promoted.insert(promotion.individual);
  return promoted;
}

template <class Rows>
void page_of(Rows& rows, const KernelQuery& query) {
  const auto from = std::min(rows.size(), static_cast<std::size_t>(query.offset));
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(from));
  if (rows.size() > static_cast<std::size_t>(query.limit)) rows.resize(static_cast<std::size_t>(query.limit));
}

std::vector<IndividualRow> rows_for(const Record& record, const KernelQuery& query) {
  std::vector<IndividualRow> rows;
  const auto add = [&](IndividualId id) {
    if (auto row = record.individual(id)) rows.push_back(std::move(*row));
  };
  if (!query.of.empty()) {
    const IndividualId id = find_individual(record, query.of);
    rows = record.lineage(id);
    for (const IndividualId child : record.descendants(id)) add(child);
  } else if (query.order == KernelQuery::Order::promotions) {
    std::set<IndividualId> seen;
    for (const PromotionRow& promotion : record.promotions())
      if (seen.insert(promotion.individual).second) add(promotion.individual);
  } else {
    return record.list(
        query.order == KernelQuery::Order::fittest ? Record::Order::fittest : Record::Order::newest,
        query.limit, query.offset);
  }
  page_of(rows, query);
  return rows;
}

}  // namespace

RunBench::Opened RunBench::open(const Where& where) {
  const Record record = open_record(where.run_folder);
  Opened opened;
  opened.facts = record.facts();
  opened.config = recorded_config(opened.facts.config_yaml, RunFolder(where.run_folder), {}, where.surface);
  return opened;
}

BenchSettings RunBench::settings_of(const Where& where, const Opened& opened) {
  const EvaluationConfig& e = opened.config.evaluation;
  BenchSettings settings;
  ServiceOptions& s = settings.services;
  s.target = opened.config.target;
  s.programs = where.surface.programs;
  s.launcher = e.launcher;
  s.cache = where.surface.cache;
  s.task_folder = opened.facts.task_folder;
  s.device = where.device.value_or(e.devices.front());
  s.cores = e.cores;
  s.compile_deadline_s = e.compile_deadline_s;
  s.run_deadline_s = e.run_deadline_s;
  s.recycle_after = e.recycle_after;
  settings.compilers = e.compile_workers > 0
                           ? e.compile_workers
                           : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  settings.sampling.screening_samples = e.screening_samples;
  settings.sampling.screening_seconds = e.screening_seconds;
  settings.sampling.max_samples = e.max_samples;
  settings.sampling.max_seconds = e.max_seconds;
  settings.sampling.oracle_rows = e.oracle_rows;
  const Task task = load_task(s.task_folder);
  settings.workloads = task.workloads(opened.config.workloads)->workloads;
  settings.knowledge = where.knowledge;
  settings.variant_format = where.variant_format;
  return settings;
}

RunBench::RunBench(Where where) : RunBench(where, open(where)) {}

RunBench::RunBench(Where where, const Opened& opened)
    : WorkerBench(settings_of(where, opened)),
      where_(std::move(where)),
      run_(opened.facts),
      devices_of_search_(opened.config.evaluation.devices) {
  const nlohmann::json& devices = run_.environment.at("devices");
  if (devices.empty()) return;
  facts_ = facts_in(run_.environment);
  device_words_ = devices.front().at("description").get<std::string>() + " (of the recorded search)";
}

std::string RunBench::situation() const {
  const Record record = open_record(where_.run_folder);
  const Summary s = record.summary();
  std::string words =
      fmt::format("Run {}: {} on {}, {}{}. {} judged, {} measured", s.run, s.task, s.target, s.state,
                  s.stop_reason.empty() ? "" : " (" + s.stop_reason + ")", s.evaluations, s.measured);
  for (const auto& [stage, count] : s.rejected) words += fmt::format(", {} rejected at {}", count, stage);
  words += fmt::format("; {} duels, {} promotions.\n", s.duels, s.promotions);
  if (s.best) {
    words += fmt::format("The best: {} at {:.5g} {}", s.best->id, s.best->fitness, s.best->unit);
    if (s.best->ratio_to_seed) words += fmt::format(", {:.3f}x the first seed", *s.best->ratio_to_seed);
    for (const auto& [name, ratio] : s.best->ratios) words += fmt::format(", {:.3f}x {}", ratio, name);
    words += ".\n";
  } else {
    words += "No kernel is the best yet.\n";
  }
  return words + fmt::format("Timed workloads: {}.\n", fmt::join(run_.workloads, ", "));
}

std::string RunBench::caveat() const {
  const auto info = device();
  if (info && facts_ && info->facts != *facts_)
    return fmt::format(
        "Note: the search was measured on another device than this one ({}). Compare only what was "
        "timed here.",
        info->description);
  const bool shared = target() == TargetKind::cpu || !where_.device ||
                      std::ranges::find(devices_of_search_, *where_.device) != devices_of_search_.end();
  if (!shared || !RunLock::holder(RunFolder(where_.run_folder))) return "";
  if (target() == TargetKind::cuda)
    return "Note: the search uses this device too. Both take turns on it, and both go slower.";
  return "Note: the search is measuring on this device at the same time: times are noisy, and disturb its "
         "own. "
         "Prefer compile, check and submit: the search then judges the kernel itself.";
}

Expected<std::vector<KernelRow>> RunBench::kernels(const KernelQuery& query) const {
  const Record record = open_record(where_.run_folder);
  const IndividualId best = record.best().value_or(0);
  const auto promoted = promoted_in(record);
  std::vector<KernelRow> rows;
  for (const IndividualRow& row : rows_for(record, query)) rows.push_back(row_of(row, best, promoted));
  return rows;
}

Expected<Kernel> RunBench::kernel(const std::string& name) const {
  const Record record = open_record(where_.run_folder);
  IndividualId id = 0;
  try {
    id = find_individual(record, name);
  } catch (const InputError& error) {
    return failure("record", error.what());
  }
  const auto row = record.individual(id);
  if (!row) return failure("record", fmt::format("individual {} is not in the record", id));
  Kernel kernel;
  kernel.row = row_of(*row, record.best().value_or(0), promoted_in(record));
  kernel.source = record.source(id);
  kernel.evaluation = record.evaluation(id);
  kernel.profile = record.profile(id);
  if (row->individual.duplicate_of != 0)
    kernel.remarks.push_back(fmt::format("Its machine code is that of {}, which was measured in its place.",
                                         row->individual.duplicate_of));
  for (const DuelRow& duel : record.duels(id)) {
    if (kernel.remarks.size() == kMostRemarks) break;
    kernel.remarks.push_back(fmt::format("The gate: {} than {}: {}", duel.verdict, duel.incumbent,
                                         duel.report.value("/decision/reason"_json_pointer, std::string())));
  }
  // Of the shapes that no search may see nothing is told but whether it passed them.
  if (const auto confirmation = record.confirmation(id))
    kernel.remarks.emplace_back(confirmation->measured()
                                    ? "Confirmed in a fresh process, with new inputs and unseen shapes."
                                    : "Refused when it was confirmed with new inputs and unseen shapes.");
  return kernel;
}

Expected<std::string> RunBench::submit(const Variant& variant, const std::string& note) {
  const auto waiting = submit_variant(where_.run_folder, variant.source, variant.configuration, note);
  if (!waiting) return tl::make_unexpected(waiting.error());
  if (RunLock::holder(RunFolder(where_.run_folder)))
    return "Submitted: the running search takes it up within seconds. list_lineage with order=newest shows "
           "it then.";
  return fmt::format(
      "Submitted, and waiting: the search is not running now, and takes it up when somebody resumes "
      "it ({}).",
      where_.resume_command);
}

}  // namespace cultivar
