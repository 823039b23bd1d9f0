#include "operators/feasibility.hpp"

#include <set>
#include <string>

namespace cultivar {

namespace {

// The names that the constraints depend on, directly and through `let`.
std::set<std::string> names_in_constraints(const Manifest& manifest, const Task& task) {
  std::set<std::string> names;
  for (const Expression& constraint : manifest.constraints)
    names.insert(constraint.names().begin(), constraint.names().end());
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

Feasibility::Feasibility(Variant variant, const Task& task, const std::vector<Workload>& workloads,
                         const Facts& facts)
    : variant_(std::move(variant)), task_(task), facts_(facts) {
  // Constraints are asked at every point of a space, so workloads that look alike to them are asked about
  // once.
  const std::set<std::string> names = names_in_constraints(variant_.manifest, task);
  std::set<std::string> seen;
  for (const Workload& workload : workloads) {
    std::string look;
    for (const auto& [name, value] : task.bindings(workload))
      if (names.contains(name)) look += name + '=' + std::to_string(value) + ' ';
    if (seen.insert(look).second) workloads_.push_back(workload);
  }
}

bool Feasibility::operator()(const Configuration& configuration) const {
  if (variant_.manifest.constraints.empty()) return true;
  variant_.configuration = configuration;
  for (const Workload& workload : workloads_)
    if (!check_constraints(variant_, task_, workload, facts_)) return false;
  return true;
}

}  // namespace cultivar
