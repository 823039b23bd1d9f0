// SPDX-License-Identifier: Apache-2.0
#include "engine/export/portfolio.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/store/run_folder.hpp"
#include "engine/store/standings.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

// A bound that is not known is null.
json bound(double value) {
  return std::isfinite(value) ? json(value) : json();
}
double bound_in(const json& value, double absent) {
  return value.is_null() ? absent : value.get<double>();
}
constexpr double kUnknown = std::numeric_limits<double>::infinity();

template <class Ratio>
json with_bounds(const Ratio& r, json object) {
  object.update({{"workload", r.workload},
                 {"kernel", r.kernel},
                 {"log_ratio", r.log_ratio},
                 {"lower", bound(r.lower)},
                 {"upper", bound(r.upper)}});
  return object;
}
template <class Ratio>
Ratio with_bounds(const json& object) {
  Ratio r;
  object.at("workload").get_to(r.workload);
  object.at("kernel").get_to(r.kernel);
  object.at("log_ratio").get_to(r.log_ratio);
  r.lower = bound_in(object.at("lower"), -kUnknown);
  r.upper = bound_in(object.at("upper"), kUnknown);
  return r;
}

template <class T>
json by_number(const std::map<IndividualId, T>& all) {
  json object = json::object();
  for (const auto& [id, value] : all) object[std::to_string(id)] = value;
  return object;
}
template <class T>
std::map<IndividualId, T> by_number(const json& object) {
  std::map<IndividualId, T> all;
  for (const auto& [id, value] : object.items()) all.emplace(std::stoll(id), value.template get<T>());
  return all;
}

// By workload: the recorded values, scaled as the individual's fitness is known relative to others'.
std::vector<double> values_of(Standings& standings, const IndividualRow& row) {
  std::vector<double> values = row.individual.workload_values;
  const double measured = row.individual.fitness;
  const double factor = measured > 0.0 ? standings.fitness(row) / measured : 0.0;
  for (double& value : values) value *= factor;
  return values;
}

bool may_be_specialist(const IndividualRow& row) {
  return row.individual.measured && !row.expelled && row.individual.duplicate_of == 0;
}

std::vector<double> ratios_to(const std::vector<double>& best, std::vector<double> values) {
  values.resize(best.size(), 0.0);
  for (std::size_t w = 0; w < best.size(); ++w) values[w] = best[w] > 0.0 ? values[w] / best[w] : 0.0;
  return values;
}

}  // namespace

std::vector<IndividualId> KernelPortfolio::kernels() const {
  if (over) return over->kernels;
  std::vector<IndividualId> all{best};
  for (const PortfolioEntry& entry : entries)
    if (std::find(all.begin(), all.end(), entry.kernel) == all.end()) all.push_back(entry.kernel);
  return all;
}

DispatchTable KernelPortfolio::table(const Task& task, const std::vector<Workload>& workloads) const {
  if (over) return over->table;
  const std::vector<IndividualId> all = kernels();
  std::vector<TimedShape> shapes;
  for (const PortfolioEntry& entry : entries)
    for (const Workload& workload : workloads) {
      if (workload.name != entry.workload) continue;
      // A specialist is slower than the chosen kernel wherever it was not chosen, by as little as any.
      constexpr double kSlower = 1.001;
      TimedShape& shape = shapes.emplace_back();
      shape.values = workload.values;
      for (const IndividualId id : all)
        shape.seconds.push_back(id == entry.kernel ? 1.0
                                : id == best       ? std::max(kSlower, std::exp(entry.log_ratio))
                                                   : kSlower);
    }
  return fit_table(shapes, all.size(), dispatch_features(task), 0.0);
}

const SpecialistDuel* KernelPortfolio::duel_of(IndividualId kernel, const std::string& workload) const {
  const auto found = std::find_if(duels.begin(), duels.end(), [&](const SpecialistDuel& duel) {
    return duel.kernel == kernel && duel.workload == workload;
  });
  return found == duels.end() ? nullptr : &*found;
}

PortfolioEntry KernelPortfolio::gain() const {
  PortfolioEntry mean{"", 0, 0.0, 0.0, 0.0};
  const auto n = static_cast<double>(std::max<std::size_t>(1, entries.size()));
  for (const PortfolioEntry& entry : entries) {
    mean.log_ratio += entry.log_ratio / n;
    mean.lower += entry.lower / n;
    mean.upper += entry.upper / n;
  }
  return mean;
}

void to_json(json& j, const KernelPortfolio& p) {
  json duels = json::array(), entries = json::array();
  for (const SpecialistDuel& d : p.duels)
    duels.push_back(with_bounds(d, {{"verdict", name_of(d.verdict)},
                                    {"blocks", d.blocks},
                                    {"runs", d.runs},
                                    {"device_seconds", d.device_seconds},
                                    {"alpha", d.alpha}}));
  for (const PortfolioEntry& entry : p.entries) entries.push_back(with_bounds(entry, json::object()));
  j = {{"best", p.best},
       {"entries", entries},
       {"gain", with_bounds(p.gain(), json::object())},
       {"duels", duels},
       {"left", p.left},
       {"confirmations", by_number(p.confirmations)},
       {"refused", by_number(p.refused)},
       {"device", p.device}};
  for (const char* none : {"workload", "kernel"}) j["gain"].erase(none);
  if (p.over) j["over"] = *p.over;
}

void from_json(const json& j, KernelPortfolio& p) {
  p = {};
  j.at("best").get_to(p.best);
  for (const json& entry : j.at("entries")) p.entries.push_back(with_bounds<PortfolioEntry>(entry));
  for (const json& duel : j.at("duels")) {
    auto d = with_bounds<SpecialistDuel>(duel);
    const auto verdict = verdict_named(duel.at("verdict").get_ref<const std::string&>());
    if (!verdict) throw json::other_error::create(501, "unknown verdict", &duel);
    d.verdict = *verdict;
    duel.at("blocks").get_to(d.blocks);
    duel.at("runs").get_to(d.runs);
    duel.at("device_seconds").get_to(d.device_seconds);
    duel.at("alpha").get_to(d.alpha);
    p.duels.push_back(std::move(d));
  }
  j.at("left").get_to(p.left);
  p.confirmations = by_number<Evaluation>(j.at("confirmations"));
  p.refused = by_number<std::string>(j.at("refused"));
  j.at("device").get_to(p.device);
  if (j.contains("over")) p.over = j["over"].get<DomainDispatch>();
}

Expected<KernelPortfolio> read_portfolio(const Record& record) {
  const auto file = RunFolder(record.folder()).portfolio();
  const auto text = read_file(file);
  const std::string run = record.folder().filename().string();
  if (!text)
    return failure("portfolio",
                   fmt::format("the run has no portfolio yet; `cultivar portfolio {}` decides it by "
                               "measurements",
                               run));
  KernelPortfolio portfolio;
  try {
    portfolio = foreign_json(*text).get<KernelPortfolio>();
  } catch (const std::exception& error) {
    return failure("portfolio", fmt::format("{} cannot be read ({}); `cultivar portfolio {}` writes it again",
                                            file.string(), said_shortly(error), run));
  }
  if (portfolio.best != record.best().value_or(0))
    return failure("portfolio",
                   fmt::format("{} is of an earlier best kernel, #{}; `cultivar portfolio {}` decides it for "
                               "the best of now",
                               file.string(), portfolio.best, run));
  return portfolio;
}

std::vector<SpecialistCandidate> specialist_candidates(const Record& record, IndividualId best, int each,
                                                       const std::set<IndividualId>& without) {
  Standings standings(record);
  const auto row = record.individual(best);
  if (!row) return {};
  const std::vector<double> best_values = values_of(standings, *row);
  std::vector<std::vector<SpecialistCandidate>> of(best_values.size());
  record.each_individual([&](const IndividualRow& other) {
    const IndividualId id = other.individual.id;
    if (id == best || without.contains(id) || !may_be_specialist(other)) return;
    const std::vector<double> ratios = ratios_to(best_values, values_of(standings, other));
    for (std::size_t w = 0; w < of.size(); ++w)
      if (ratios[w] > 1.0) of[w].push_back({w, id, ratios[w]});
  });
  const auto faster = [](const SpecialistCandidate& a, const SpecialistCandidate& b) {
    return a.ratio != b.ratio ? a.ratio > b.ratio : a.kernel < b.kernel;
  };
  std::vector<SpecialistCandidate> all;
  for (auto& candidates : of) std::sort(candidates.begin(), candidates.end(), faster);
  for (std::size_t place = 0; place < static_cast<std::size_t>(std::max(0, each)); ++place) {
    const auto first = static_cast<std::ptrdiff_t>(all.size());
    for (const auto& candidates : of)
      if (place < candidates.size()) all.push_back(candidates[place]);
    std::stable_sort(all.begin() + first, all.end(), faster);
  }
  return all;
}

std::vector<SpecialistCandidate> further_candidates(const Record& record, const KernelPortfolio& portfolio) {
  Standings standings(record);
  const auto best = record.individual(portfolio.best);
  if (!best) return {};
  const std::vector<double> best_values = values_of(standings, *best);
  std::vector<SpecialistCandidate> all;
  for (const IndividualId id : portfolio.kernels()) {
    const auto row = record.individual(id);
    if (id == portfolio.best || !row) continue;
    const std::vector<double> ratios = ratios_to(best_values, values_of(standings, *row));
    for (std::size_t w = 0; w < std::min(ratios.size(), portfolio.entries.size()); ++w) {
      if (ratios[w] > 1.0 && !portfolio.duel_of(id, portfolio.entries[w].workload))
        all.push_back({w, id, ratios[w]});
    }
  }
  return all;
}

void choose_entries(KernelPortfolio& portfolio, const std::vector<std::string>& workloads,
                    std::size_t kernels) {
  portfolio.entries.clear();
  for (const std::string& workload : workloads) portfolio.entries.push_back({workload, portfolio.best});
  // What the entries gain, in the sum of their logarithms, if this kernel is taken too.
  const auto with = [&](IndividualId kernel, bool take) {
    double gain = 0.0;
    for (const SpecialistDuel& duel : portfolio.duels) {
      if (duel.kernel != kernel || duel.verdict != Verdict::better) continue;
      for (PortfolioEntry& entry : portfolio.entries) {
        if (entry.workload != duel.workload || duel.log_ratio <= entry.log_ratio) continue;
        gain += duel.log_ratio - entry.log_ratio;
        if (take) entry = {duel.workload, kernel, duel.log_ratio, duel.lower, duel.upper};
      }
    }
    return gain;
  };
  std::set<IndividualId> open;
  for (const SpecialistDuel& duel : portfolio.duels)
    if (!portfolio.refused.contains(duel.kernel)) open.insert(duel.kernel);
  for (std::size_t taken = 1; taken < kernels && !open.empty(); ++taken) {
    const IndividualId next =
        *std::max_element(open.begin(), open.end(),
                          [&](IndividualId a, IndividualId b) { return with(a, false) < with(b, false); });
    if (with(next, true) <= 0.0) break;
    open.erase(next);
  }
}

}  // namespace cultivar
