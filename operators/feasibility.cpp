// SPDX-License-Identifier: Apache-2.0
#include "operators/feasibility.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "evaluators/judge/stages.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kMostKnown = 1 << 20;       // of one question
constexpr std::size_t kMostKnownOfAll = 1 << 24;  // a manifest may ask hundreds

// The given names and all names that their values depend on through `let`.
std::set<std::string> closure(const std::vector<std::string>& start, const Manifest& manifest,
                              const Task& task) {
  std::set<std::string> names(start.begin(), start.end());
  for (bool grown = true; grown;) {
    const std::size_t before = names.size();
    for (const auto* let : {&manifest.let, &task.let})
      for (const auto& [name, value] : *let)
        if (names.contains(name)) names.insert(value.names().begin(), value.names().end());
    grown = names.size() != before;
  }
  return names;
}

}  // namespace

Feasibility::Feasibility(Variant variant, const Task& task, std::vector<Workload> workloads,
                         const Facts& facts)
    : tunables_(variant.manifest.tunables), task_(task), facts_(facts) {
  const Manifest& manifest = variant.manifest;
  if (manifest.constraints.empty()) return;
  std::ranges::copy(every_claimed_shape(task, variant), std::back_inserter(workloads));
  variant.source.clear();
  std::set<std::string> asked;
  for (const Expression& constraint : manifest.constraints) {
    add_question(variant, {constraint}, constraint.names(), workloads);
    asked.merge(closure(constraint.names(), manifest, task));
  }
  for (const auto& [name, value] : manifest.let)
    if (!asked.contains(name)) add_question(variant, {}, {name}, workloads);
}

void Feasibility::add_question(const Variant& variant, const std::vector<Expression>& constraints,
                               const std::vector<std::string>& names,
                               const std::vector<Workload>& workloads) {
  const std::set<std::string> all = closure(names, variant.manifest, task_);
  Question question{variant, {}, {}, {}};
  question.variant.manifest.constraints = constraints;
  std::erase_if(question.variant.manifest.let, [&](const auto& let) { return !all.contains(let.first); });
  // Workloads with equal values of these names are checked only once.
  std::set<std::string> seen;
  for (const Workload& workload : workloads) {
    std::string look;
    for (const auto& [name, value] : task_.bindings(workload))
      if (all.contains(name)) look += name + '=' + std::to_string(value) + ' ';
    if (seen.insert(look).second) question.workloads.push_back(workload);
  }
  std::size_t combinations = 1;
  for (std::size_t t = 0; t < tunables_.size(); ++t)
    if (all.contains(tunables_[t].name)) {
      question.depends.push_back(t);
      combinations = std::min(combinations * tunables_[t].values.size(), kMostKnown + 1);
    }
  if (combinations <= std::min(kMostKnown, kMostKnownOfAll - known_)) {
    question.known.assign(combinations, 0);
    known_ += combinations;
  }
  questions_.push_back(std::move(question));
}

bool Feasibility::holds(Question& question, const Configuration& configuration) const {
  question.variant.configuration = configuration;
  return std::ranges::all_of(question.workloads, [&](const Workload& workload) {
    return check_constraints(question.variant, task_, workload, facts_).has_value();
  });
}

bool Feasibility::operator()(const Configuration& configuration) const {
  return std::ranges::all_of(questions_, [&](Question& question) { return holds(question, configuration); });
}

bool Feasibility::at(std::span<const int> point) const {
  const auto configuration = [&] {
    Configuration all;
    for (std::size_t t = 0; t < tunables_.size(); ++t)
      all.emplace(tunables_[t].name, tunables_[t].values[static_cast<std::size_t>(point[t])]);
    return all;
  };
  return std::ranges::all_of(questions_, [&](Question& question) {
    if (question.known.empty()) return holds(question, configuration());
    std::size_t combination = 0;
    for (const std::size_t t : question.depends)
      combination = combination * tunables_[t].values.size() + static_cast<std::size_t>(point[t]);
    std::int8_t& answer = question.known[combination];
    if (answer == 0) answer = holds(question, configuration()) ? 1 : -1;
    return answer > 0;
  });
}

}  // namespace cultivar
