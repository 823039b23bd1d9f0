// SPDX-License-Identifier: Apache-2.0
#include "engine/views/run_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "engine/store/interventions.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/individual_view.hpp"
#include "engine/views/run_report.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr std::size_t kNote = 400;  // bytes of a note in lists

// Until this budget is spent, at the present rate; negative: no limit, or not known.
double seconds_left(const std::string& kind, const BudgetUse& use, double elapsed_s, double per_hour) {
  if (!use.limit) return -1.0;
  const double left = std::max(0.0, *use.limit - use.used);
  if (kind == "wall" || kind == "plateau") return left;
  if (kind == "evaluations") return per_hour > 0.0 ? 3600.0 * left / per_hour : -1.0;
  return use.used > 0.0 && elapsed_s > 0.0 ? left / (use.used / elapsed_s) : -1.0;
}

// Of all devices; if the record lacks it, that of evaluations alone.
double device_time(const Summary& summary, const RunIndex& index) {
  if (summary.has_device_time()) return 3600.0 * summary.budget.at("device_hours").used;
  double of_evaluations = 0.0;
  for (const RunIndex::Judgement& judgement : index.judged()) of_evaluations += judgement.device_s;
  return of_evaluations;
}

// For each 48th of the search time: which part of the time of the measuring workers went into evaluations. An
// evaluation's device time is taken as that before its end. At most 1: earlier sessions may have had more
// workers.
std::vector<double> busy_shares(const RunIndex& index, double elapsed_s, double workers) {
  constexpr std::size_t kBins = 48;
  std::vector<double> shares(kBins, 0.0);
  if (!(elapsed_s > 0.0)) return shares;
  const double width = elapsed_s / static_cast<double>(kBins);
  for (const RunIndex::Judgement& judgement : index.judged()) {
    const double end = std::clamp(judgement.elapsed_s, 0.0, elapsed_s);
    const double begin = std::clamp(end - judgement.device_s, 0.0, end);
    for (auto bin = static_cast<std::size_t>(begin / width); bin < kBins; ++bin) {
      const double from = width * static_cast<double>(bin);
      if (from >= end) break;
      shares[bin] += std::min(end, from + width) - std::max(begin, from);
    }
  }
  for (double& each : shares) each = std::min(1.0, each / (width * workers));
  return shares;
}

std::map<std::string, double> contender_lines(const Summary& summary) {
  std::map<std::string, double> lines;
  if (summary.best)
    for (const auto& [name, ratio] : summary.best->ratios)
      if (ratio > 0.0) lines[name] = summary.best->fitness / ratio;
  return lines;
}

}  // namespace

json row_facts(const RunIndex& index, const KernelFacts& k) {
  return {{"id", k.id},
          {"parent", k.parent},
          {"state", name_of(k.state)},
          {"stage", index.word(k.stage)},
          {"reason", index.word(k.reason)},
          {"fitness", k.fitness},
          {"operator", index.word(k.op)},
          {"model", index.word(k.model)},
          {"island", k.island},
          {"promoted", k.promoted},
          {"best", k.id == index.best()},
          {"expelled", k.expelled},
          {"elapsed_s", k.elapsed_s >= 0.0 ? json(k.elapsed_s) : json()}};
}

json state_view(const Record& record, const RunIndex& index) {
  const Summary summary = summary_of(record);
  const RunFacts facts = record.facts();
  Standings standings(record);
  json promotions = json::array();
  for (const RunIndex::Promotion& promotion : index.promotions()) {
    const KernelFacts* const k = index.find(promotion.id);
    if (!k) continue;
    json row = row_facts(index, *k);
    row["evaluations"] = promotion.evaluations;
    row["elapsed_s"] = promotion.elapsed_s;
    row["at"] = promotion.at;
    const DuelResult* const duel = standings.duel(k->id);
    row["duel"] = duel ? facts_of(*duel) : json();
    row["note"] = plain_line(kernel_texts(record, {k->id}, kNote).front().note, kNote);
    promotions.push_back(row);
  }
  json view{{"summary", summary},
            {"created_at", facts.created_at},
            {"last_step_at", last_step_at(record)},
            {"workloads", facts.workloads},
            {"unit", facts.unit_of_fitness},
            {"promotions", promotions},
            {"contenders", contender_lines(summary)},
            {"rate_over", kRateOver},
            {"sessions", index.sessions()},
            {"paced", index.paced()}};
  view["best_age_s"] =
      index.promotions().empty() ? json() : json(summary.elapsed_s - index.promotions().back().elapsed_s);
  return view;
}

json series_view(const RunIndex& index, bool by_count) {
  constexpr double kColumns = 300.0, kRows = 160.0;
  const auto& judged = index.judged();
  const auto x_of = [&](std::size_t i) {
    return by_count ? static_cast<double>(i + 1) : judged[i].elapsed_s;
  };
  double x_max = 0.0, low = 0.0, high = 0.0;
  for (std::size_t i = 0; i < judged.size(); ++i) {
    x_max = std::max(x_max, x_of(i));
    const KernelFacts* const k = index.find(judged[i].id);
    if (!k || !(k->fitness > 0.0)) continue;
    low = low > 0.0 ? std::min(low, k->fitness) : k->fitness;
    high = std::max(high, k->fitness);
  }
  for (const RunIndex::Promotion& promotion : index.promotions())  // a confirmation ends after its evaluation
    x_max = std::max(x_max, by_count ? static_cast<double>(promotion.evaluations) : promotion.elapsed_s);
  json points = json::array(), rejected = json::array();
  std::map<std::tuple<int, int, int>, std::size_t> cells;  // the number of a point
  std::map<int, std::int64_t> refusals;
  std::unordered_map<IndividualId, double> when;
  const auto cell = [](double value, double from, double to, double count) {
    return to > from ? static_cast<int>((count - 1.0) * (value - from) / (to - from)) : 0;
  };
  for (std::size_t i = 0; i < judged.size(); ++i) {
    const KernelFacts* const k = index.find(judged[i].id);
    if (!k) continue;
    when[k->id] = x_of(i);
    if (!(k->fitness > 0.0)) {
      ++refusals[cell(x_of(i), 0.0, x_max, 60.0)];
      continue;
    }
    const int kind = k->promoted ? 2 : k->expelled ? 1 : 0;
    const double height = low > 0.0 && high > low ? std::log(k->fitness / low) / std::log(high / low) : 0.0;
    const auto [at, added] =
        cells.try_emplace({cell(x_of(i), 0.0, x_max, kColumns), static_cast<int>(kRows * height),
                           k->promoted ? static_cast<int>(k->id) + 2 : kind},
                          points.size());
    if (added)
      points.push_back({x_of(i), k->fitness, k->id, kind, 1});
    else
      points[at->second][4] = points[at->second][4].get<int>() + 1;
  }
  for (const auto& [column, count] : refusals) rejected.push_back({x_max * column / 59.0, count});
  json best = json::array(), path = json::array();
  for (const RunIndex::Promotion& promotion : index.promotions())
    if (const KernelFacts* const k = index.find(promotion.id))
      best.push_back(
          {by_count ? static_cast<double>(promotion.evaluations) : promotion.elapsed_s, k->fitness, k->id});
  if (!index.promotions().empty())
    for (const IndividualId id : index.line_to(index.promotions().back().id))
      if (const auto at = when.find(id); at != when.end())
        if (const KernelFacts* const k = index.find(id); k->fitness > 0.0)
          path.push_back({at->second, k->fitness, id});
  return {{"by", by_count ? "count" : "time"},
          {"x_max", x_max},
          {"low", low},
          {"high", high},
          {"points", points},
          {"rejected", rejected},
          {"best", best},
          {"path", path}};
}

json path_view(const Record& record, const RunIndex& index, IndividualId id) {
  if (id == 0) id = index.promotions().empty() ? 0 : index.promotions().back().id;
  json path = json::array();
  Standings standings(record);
  double before = 0.0;
  std::optional<IndividualRow> parent;
  for (const IndividualId at : index.line_to(id)) {
    const KernelFacts& k = *index.find(at);
    json row = row_facts(index, k);
    auto whole = record.individual(at);
    if (!whole) continue;
    row["change"] = plain_line(
        parent ? change_of(parent->individual, whole->individual) : whole->individual.descent.note, kNote);
    row["same_source"] = parent && parent->individual.source_id == whole->individual.source_id;
    row["gain"] = before > 0.0 && k.fitness > 0.0 ? json(k.fitness / before - 1.0) : json();
    const DuelResult* const duel = standings.duel(at);
    row["duel"] = duel ? facts_of(*duel) : json();
    path.push_back(row);
    before = k.fitness;
    parent = std::move(whole);
  }
  return {{"of", id}, {"path", path}};
}

json children_view(const Record& record, const RunIndex& index, IndividualId parent, std::size_t from,
                   std::size_t count) {
  std::vector<const KernelFacts*> children;
  std::unordered_map<IndividualId, std::int64_t> own;  // children of each individual
  for (const KernelFacts& k : index.kernels()) {
    ++own[k.parent];
    if (k.parent == parent) children.push_back(&k);
  }
  std::ranges::stable_sort(children, std::greater<>(),
                           [](const KernelFacts* k) { return std::pair(k->promoted, k->fitness); });
  json rows = json::array();
  const std::size_t end = std::min(children.size(), from + count);
  for (std::size_t i = std::min(from, end); i < end; ++i) {
    json row = row_facts(index, *children[i]);
    row["children"] = own[children[i]->id];
    row["note"] = plain_line(kernel_texts(record, {children[i]->id}, kNote).front().note, kNote);
    rows.push_back(row);
  }
  return {{"of", parent}, {"all", children.size()}, {"from", from}, {"rows", rows}};
}

json failures_view(const RunIndex& index) {
  struct Reason {
    std::int64_t count = 0;
    std::vector<IndividualId> newest;
  };
  constexpr std::size_t kExamples = 3, kMost = 300;
  std::map<std::pair<std::string, std::string>, Reason> reasons;
  std::map<std::string, std::int64_t> stages;
  const auto add = [&](const std::string& stage, const std::string& reason, IndividualId id) {
    ++stages[stage];
    Reason& each = reasons[{stage, reason}];
    ++each.count;
    each.newest.push_back(id);
    if (each.newest.size() > kExamples) each.newest.erase(each.newest.begin());
  };
  for (const KernelFacts& k : index.kernels()) {
    if (k.state == IndividualState::rejected || k.expelled)
      add(index.word(k.stage), index.word(k.reason), k.id);
  }
  std::vector<std::pair<std::pair<std::string, std::string>, Reason>> sorted(reasons.begin(), reasons.end());
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& each) { return each.second.count; });
  json rows = json::array();
  for (std::size_t i = 0; i < std::min(sorted.size(), kMost); ++i)
    rows.push_back({{"stage", sorted[i].first.first},
                    {"reason", sorted[i].first.second},
                    {"count", sorted[i].second.count},
                    {"newest", sorted[i].second.newest}});
  return {{"stages", stages}, {"reasons", rows}, {"all", sorted.size()}};
}

json operators_view(const Record& record, const RunIndex& index) {
  const Summary summary = summary_of(record);
  json rows = json::array();
  for (const auto& [who, y] : yields_of(record, index))
    rows.push_back({{"operator", who.first},
                    {"model", who.second},
                    {"proposed", y.proposed},
                    {"measured", y.measured},
                    {"rejected", y.rejected},
                    {"challengers", y.challengers},
                    {"promoted", y.promoted},
                    {"best", y.best},
                    {"gain", y.gain},
                    {"device_s", y.device_s},
                    {"calls", y.calls},
                    {"tokens", y.tokens},
                    {"usd", y.usd}});
  return {{"rows", rows}, {"models", summary.models.is_object() ? summary.models : json::object()}};
}

json devices_view(const Record& record, const RunIndex& index) {
  constexpr std::size_t kShown = 160;
  std::vector<const KernelFacts*> measured;
  for (const RunIndex::Judgement& judgement : index.judged())
    if (const KernelFacts* const k = index.find(judgement.id); k && k->state == IndividualState::measured)
      measured.push_back(k);
  json points = json::array();
  const std::size_t step = std::max<std::size_t>(1, measured.size() / kShown);
  for (std::size_t i = 0; i < measured.size(); i += step) {
    const auto evaluation = record.evaluation(measured[i]->id);
    if (!evaluation) continue;
    double clock = 0.0, temperature = 0.0, power = 0.0, count = 0.0;
    std::uint64_t throttle = 0;
    std::int64_t discarded = 0;
    for (const WorkloadResult& w : evaluation->workloads) {
      discarded += w.discarded;
      for (const Sample& sample : w.samples) {
        clock += sample.clock_mhz;
        power += sample.power_w;
        temperature = std::max(temperature, sample.temperature_c);
        throttle |= sample.throttle;
        count += 1.0;
      }
    }
    if (count == 0.0) continue;
    points.push_back({{"elapsed_s", measured[i]->elapsed_s},
                      {"id", measured[i]->id},
                      {"clock_mhz", clock / count},
                      {"temperature_c", temperature},
                      {"power_w", power / count},
                      {"throttle", throttle},
                      {"discarded", discarded}});
  }
  const double elapsed = index.judged().empty() ? 0.0 : index.judged().back().elapsed_s;
  const json environment = record.facts().environment;
  const json devices = environment.value("devices", json::array());
  const Summary summary = summary_of(record);
  std::size_t measuring = std::max<std::size_t>(1, devices.size());
  for (const WorkersOf& pool : summary.workers)
    if (pool.measures) measuring = std::max(measuring, static_cast<std::size_t>(std::max(0, pool.workers)));
  return {{"devices", devices},
          {"compiler", environment.value("compiler", json())},
          {"workers", summary.workers},
          {"measuring", measuring},
          {"device_s", device_time(summary, index)},
          {"of_evaluations_alone", !summary.has_device_time()},
          {"search_s", summary.elapsed_s},
          {"measurements", points},
          {"busy", busy_shares(index, elapsed, static_cast<double>(measuring))},
          {"elapsed_s", elapsed}};
}

json budgets_view(const Record& record, const RunIndex& index) {
  const Summary summary = summary_of(record);
  json rows = json::array();
  for (auto [kind, use] : summary.budget) {
    if (kind == "device_hours") use.used = device_time(summary, index) / 3600.0;
    const double left = seconds_left(kind, use, summary.elapsed_s, summary.evaluations_per_hour);
    rows.push_back({{"kind", kind},
                    {"of_evaluations_alone", kind == "device_hours" && !summary.has_device_time()},
                    {"used", use.used},
                    {"limit", use.limit ? json(*use.limit) : json()},
                    {"seconds_left", left >= 0.0 ? json(left) : json()}});
  }
  return {{"rows", rows},
          {"alive", summary.alive()},
          {"per_hour", summary.evaluations_per_hour},
          {"rate_over", kRateOver},
          {"elapsed_s", summary.elapsed_s}};
}

json interventions_view(const Record& record) {
  constexpr std::size_t kMost = 300;
  const Summary summary = summary_of(record);
  std::vector<InterventionRow> rows = interventions_of(record);
  const std::size_t all = rows.size();
  if (all > kMost) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(kMost));
  return {{"rows", intervention_facts(rows)},
          {"all", all},
          {"alive", summary.alive()},
          {"plan", summary.plan},
          {"gate_advice", summary.gate_advice}};
}

json events_view(const Record& record, std::int64_t after, std::int64_t count) {
  json rows = json::array();
  for (const EventRow& event : record.events(count, after))
    rows.push_back({{"id", event.id},
                    {"at", event.at},
                    {"kind", event.kind},
                    {"text", plain_line(event.text, 2000)},
                    {"individual", event.individual}});
  return {{"rows", rows}};
}

}  // namespace cultivar
