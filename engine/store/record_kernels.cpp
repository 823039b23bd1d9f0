// SPDX-License-Identifier: Apache-2.0
#include "engine/store/record_kernels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/store/record.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "engine/store/tool_results.hpp"

namespace cultivar {
namespace {

constexpr std::size_t kMostRemarks = 12;

std::string state_of(const IndividualRow& row) {
  return row.state == IndividualState::proposed ? "in flight"
         : row.individual.measured              ? "measured"
                                                : "rejected";
}

bool in_state(const IndividualRow& row, const std::string& state) {
  return state.empty() || state_of(row) == state;
}

KernelRow row_of(const IndividualRow& row, IndividualId best, const std::set<IndividualId>& promoted,
                 Standings& standings) {
  const Individual& i = row.individual;
  KernelRow shown;
  shown.id = std::to_string(i.id);
  for (const IndividualId parent : i.descent.parents) shown.parents.push_back(std::to_string(parent));
  shown.state = state_of(row);
  shown.stage = row.expelled ? "confirm" : row.stage;
  shown.reason =
      row.expelled ? "measured, but failed its confirmation with new inputs and holdout shapes" : row.reason;
  shown.fitness = standings.fitness(i.id);
  if (const DuelResult* const duel = standings.duel(i.id))
    shown.duel = fmt::format("{} side by side with {}", gain_words(duel->all), duel->incumbent);
  shown.best = i.id == best;
  shown.was_best = promoted.contains(i.id);
  shown.op = origin_name(i.descent);
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

std::vector<IndividualRow> rows_for(const Record& record, const KernelQuery& query, Standings& standings) {
  std::vector<IndividualRow> rows;
  const auto add = [&](IndividualId id) {
    if (auto row = record.individual(id)) rows.push_back(std::move(*row));
  };
  const auto sort = [&](bool unsorted_too) {
    if (query.order == KernelQuery::Order::fittest) {
      std::map<IndividualId, double> fitness;
      for (const IndividualRow& row : rows) fitness[row.individual.id] = standings.fitness(row);
      std::ranges::stable_sort(rows, std::ranges::greater(),
                               [&](const IndividualRow& row) { return fitness.at(row.individual.id); });
    }
    if (query.order == KernelQuery::Order::newest || unsorted_too)
      std::ranges::stable_sort(rows, std::ranges::greater(),
                               [](const IndividualRow& row) { return row.individual.id; });
  };
  if (!query.of.empty()) {
    const IndividualId id = find_individual(record, query.of, kToolOfNames);
    rows = record.lineage(id);
    for (const IndividualId child : record.descendants(id)) add(child);
    std::erase_if(rows, [&](const IndividualRow& row) { return !in_state(row, query.state); });
    sort(false);
  } else if (!query.state.empty()) {
    record.each_individual([&](const IndividualRow& row) {
      if (in_state(row, query.state)) rows.push_back(row);
    });
    sort(query.order == KernelQuery::Order::promotions);  // of these, none may ever have been the best
  } else if (query.order == KernelQuery::Order::promotions) {
    std::set<IndividualId> seen;
    for (const PromotionRow& promotion : record.promotions())
      if (seen.insert(promotion.individual).second) add(promotion.individual);
  } else {
    if (query.order == KernelQuery::Order::newest)
      return record.list(Record::Order::newest, query.limit, query.offset);
    // Duels change the order of the fittest: more rows than needed, sorted by what is known now.
    constexpr std::int64_t kMore = 200;
    rows = record.list(Record::Order::fittest, std::int64_t{query.limit} + query.offset + kMore);
    sort(false);
  }
  page_of(rows, query);
  return rows;
}

}  // namespace

std::string situation_of(const Record& record) {
  const Summary s = summary_of(record);
  std::string words =
      fmt::format("Run {}: {} on {}, {}{}. {} evaluated, {} measured", s.run, s.task, s.target, s.state,
                  s.stop_reason.empty() ? "" : " (" + s.stop_reason + ")", s.evaluations, s.measured);
  for (const auto& [stage, count] : s.rejected)
    words += fmt::format(", {} rejected at {}", count, name_of(stage));
  if (s.expelled > 0) words += fmt::format(", {} measured but refused by the confirmation", s.expelled);
  words += fmt::format("; {} duels, {} promotions.\n", s.duels, s.promotions);
  if (s.best) {
    words += fmt::format("The best: {} at {:.5g} {}", s.best->id, s.best->fitness, s.best->unit);
    if (s.best->ratio_to_seed)
      words += fmt::format(", {} the first seed", ratio_words(*s.best->ratio_to_seed));
    for (const auto& [name, ratio] : s.best->ratios)
      words += fmt::format(", {} {}", ratio_words(ratio), name);
    words += ".\n";
  } else {
    words += "No kernel has been promoted to best yet.\n";
  }
  return words + fmt::format("Timed workloads: {}.\n", fmt::join(record.facts().workloads, ", "));
}

Expected<std::vector<KernelRow>> kernels_in(const Record& record, const KernelQuery& query) {
  const IndividualId best = record.best().value_or(0);
  const auto promoted = promoted_in(record);
  std::vector<KernelRow> rows;
  Standings standings(record);
  for (const IndividualRow& row : rows_for(record, query, standings))
    rows.push_back(row_of(row, best, promoted, standings));
  return rows;
}

namespace {

KernelRow row_of(const RecordedDraft& made) {
  KernelRow row;
  row.id = made.id();
  if (!made.origin.empty()) row.parents = {made.origin};
  row.state = "not evaluated";
  row.op = "draft";
  row.draft = true;
  row.configuration = made.draft.configuration;
  if (!made.tool.empty()) row.note = made.tool + ": " + made.result;
  return row;
}

}  // namespace

std::vector<KernelRow> drafts_in(const Record& record, const std::string& but) {
  constexpr std::size_t kMostDrafts = 40;
  std::vector<KernelRow> rows;
  for (const RecordedDraft& made : recorded_drafts(record, kMostDrafts))
    if (made.conversation != but) rows.push_back(row_of(made));
  return rows;
}

Expected<Outlook> outlook_in(const Record& record, const std::string& name, bool running) {
  const std::string pending =
      running ? "" : "; the search is not running, so nothing happens until it is resumed";
  IndividualId id = 0;
  try {
    id = find_individual(record, name, kToolOfNames);
  } catch (const InputError& error) {
    constexpr std::size_t kVariantId = 64;  // hexadecimal digits
    if (name.size() != kVariantId) return failure("record", error.what());
    return Outlook{!running, "it waits for the search to pick it up" + pending};
  }
  const IndividualRow row = record.individual(id).value();
  const auto say = [&](bool settled, const std::string& words) {
    return Outlook{settled || !running, fmt::format("{}: {}{}", id, words, settled ? "" : pending)};
  };
  if (row.state == IndividualState::proposed) return say(false, "it is being evaluated");
  if (row.individual.duplicate_of != 0)
    return say(true, fmt::format("its machine code equals that of {}, which was measured instead",
                                 row.individual.duplicate_of));
  if (row.expelled) {
    const auto confirmation = record.confirmation(id);
    return say(true, "it failed its confirmation with new inputs and holdout shapes" +
                         (confirmation
                              ? fmt::format(", at {}: {}", name_of(confirmation->stage), confirmation->reason)
                              : std::string()));
  }
  if (!row.individual.measured)
    return say(true, fmt::format("it is rejected at {}: {}", row.stage, row.reason));
  const std::string fitness = fmt::format("measured at {:.5g}", row.individual.fitness);
  if (promoted_in(record).contains(id)) return say(true, "it became the best, " + fitness);
  const std::vector<DuelRow> duels = record.duels(id);
  if (record.outstanding() == id)
    return say(false, fitness + (duels.empty() ? "; it" : "; it won its duel and") + " is being confirmed");
  if (!duels.empty()) {
    const DuelRow& last = duels.back();
    const std::string words =
        fmt::format("{}; {} against {}: {}", fitness, name_of(last.verdict), last.incumbent,
                    last.report.value("/decision/reason"_json_pointer, std::string()));
    const bool goes_on = last.verdict == Verdict::better ||
                         (last.verdict == Verdict::undecided && last.report.contains("times"));
    return say(!goes_on, words + (goes_on ? "; its duel may go on" : ""));
  }
  const auto best = record.best();
  Standings standings(record);
  const double share = best ? standings.fitness(row) / standings.fitness(*best) : 1.0;
  constexpr double kNoDuel = 0.9;  // below this share of the best, none is compared
  if (share < kNoDuel)
    return say(true, fmt::format("{}, {:.0f} % of the best: it is not compared", fitness, 100.0 * share));
  return say(false, fitness + "; it has not been compared with the best yet");
}

Expected<Kernel> kernel_in(const Record& record, const std::string& name) {
  if (const auto made = recorded_draft(record, name)) {
    Kernel kernel;
    kernel.row = row_of(*made);
    kernel.source = made->draft.source;
    return kernel;
  }
  IndividualId id = 0;
  try {
    id = find_individual(record, name, kToolOfNames);
  } catch (const InputError& error) {
    return failure("record", error.what());
  }
  const auto row = record.individual(id);
  if (!row) return failure("record", fmt::format("individual {} is not in the record", id));
  Kernel kernel;
  Standings standings(record);
  kernel.row = row_of(*row, record.best().value_or(0), promoted_in(record), standings);
  kernel.source = record.source(id);
  kernel.evaluation = record.evaluation(id);
  kernel.profile = record.profile(id);
  if (row->individual.duplicate_of != 0)
    kernel.remarks.push_back(fmt::format("Its machine code equals that of {}, which was measured instead.",
                                         row->individual.duplicate_of));
  for (const DuelRow& duel : record.duels(id)) {
    if (kernel.remarks.size() == kMostRemarks) break;
    kernel.remarks.push_back(fmt::format("The gate, against {}: {}: {}", duel.incumbent,
                                         name_of(duel.verdict),
                                         duel.report.value("/decision/reason"_json_pointer, std::string())));
  }
  if (const DuelResult* const duel = standings.duel(id)) {
    const std::vector<std::string> workloads = record.facts().workloads;
    std::string each;
    for (std::size_t i = 0; i < std::min(workloads.size(), duel->workloads.size()); ++i)
      each += fmt::format("{}{} {}", i ? "; " : "", workloads[i], gain_words(duel->workloads[i]));
    kernel.remarks.push_back(fmt::format("By workload, side by side with {}: {}", duel->incumbent, each));
  }
  // Of times on holdout shapes, none is shown; why one failed is needed for its repair.
  if (const auto confirmation = record.confirmation(id)) {
    kernel.remarks.emplace_back(
        confirmation->measured()
            ? "Confirmed in a fresh process with new inputs and holdout shapes."
            : "Measured, then it failed its confirmation with new inputs and holdout shapes:");
    if (!confirmation->measured()) kernel.evaluation = confirmation;
  }
  return kernel;
}

}  // namespace cultivar
