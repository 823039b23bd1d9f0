// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/check_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

bool is_legal(const Variant& variant, const Task& task, const Workload& workload, const Facts& facts) {
  return check_constraints(variant, task, workload, facts) && make_plan(variant, task, workload, facts);
}

tl::expected<Plan, Evaluation> legal_plan(const Variant& variant, const Task& task, const Workload& workload,
                                          const Facts& facts, const std::string& where) {
  if (const auto holds = check_constraints(variant, task, workload, facts); !holds)
    return tl::make_unexpected(rejection(
        Stage::lint,
        fmt::format("{} on {}",
                    holds.error().has_value ? "a constraint does not hold" : "an expression has no value",
                    where),
        holds.error().message +
            "\nThe variant claims this shape: change the tunables or narrow `requires`.\n"));
  Expected<Plan> plan = make_plan(variant, task, workload, facts);
  if (!plan)
    return tl::make_unexpected(rejection(Stage::lint, "no legal plan on " + where, plan.error().message));
  return std::move(*plan);
}

std::vector<Workload> check_shapes(const Task& task, Stage stage, Target target) {
  const std::vector<Workload>& shapes = stage == Stage::smoke    ? task.smoke
                                        : stage == Stage::sweep  ? task.sweep
                                        : stage == Stage::stress ? task.stress_shapes
                                                                 : task.edge;
  std::vector<Workload> all;
  for (const Workload& shape : shapes) {
    for (const Dtype dtype : target->dtypes) {
      if (std::find(task.dtypes.begin(), task.dtypes.end(), dtype) == task.dtypes.end()) continue;
      Workload& w = all.emplace_back(shape);
      w.dtype = dtype;
      if (shape.name.find(name_of(dtype)) == std::string::npos) w.name += fmt::format("_{}", name_of(dtype));
    }
  }
  return all;
}

std::vector<Workload> claimed_shapes(const Task& task, Stage stage, const Variant& variant) {
  std::vector<Workload> shapes = check_shapes(task, stage, variant.manifest.target);
  std::erase_if(shapes, [&](const Workload& w) { return !claims(variant, task, w); });
  return shapes;
}

namespace {

std::vector<Workload> holdout_of(const Task& task, Target target) {
  const WorkloadSet* own = task.workloads(fmt::format("{}_holdout", name_of(target)));
  const WorkloadSet* set = own != nullptr ? own : task.workloads("holdout");
  if (set == nullptr) return {};
  std::vector<Workload> workloads = set->workloads;
  std::erase_if(workloads, [&](const Workload& w) {
    return std::ranges::find(target->dtypes, w.dtype) == target->dtypes.end();
  });
  return workloads;
}

// As names of sets go: "cpu_long" is for the target cpu.
bool is_of_another(const WorkloadSet& set, Target target) {
  return std::ranges::any_of(targets(),
                             [&](Target t) { return t != target && set.name.starts_with(name_of(t)); });
}

}  // namespace

std::vector<Workload> small_listed(const Task& task, const Variant& variant) {
  std::vector<Workload> shapes;
  for (const Stage stage : {Stage::sweep, Stage::edge})
    std::ranges::copy(claimed_shapes(task, stage, variant), std::back_inserter(shapes));
  return shapes;
}

std::vector<Workload> holdout_workloads(const Task& task, const Variant& variant) {
  std::vector<Workload> workloads = holdout_of(task, variant.manifest.target);
  std::erase_if(workloads, [&](const Workload& w) { return !claims(variant, task, w); });
  return workloads;
}

std::vector<Workload> shapes_for_errors(const Task& task, const Variant& variant,
                                        const std::vector<Workload>& workloads) {
  std::vector<Workload> shapes = claimed_shapes(task, Stage::stress, variant);
  std::erase_if(shapes, [&](const Workload& w) {
    return !workloads.empty() && std::ranges::find(workloads, w.dtype, &Workload::dtype) == workloads.end();
  });
  return shapes;
}

std::vector<Workload> listed_shapes(const Task& task, Target target) {
  std::vector<Workload> all = holdout_of(task, target);
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
    std::ranges::copy(check_shapes(task, stage, target), std::back_inserter(all));
  return all;
}

void for_each_listed(const Task& task, const std::function<void(const Workload&)>& use) {
  for (const auto* shapes : {&task.smoke, &task.sweep, &task.stress_shapes, &task.edge})
    for (const Workload& w : *shapes) use(w);
  for (const WorkloadSet& set : task.workload_sets)
    for (const Workload& w : set.workloads) use(w);
}

std::vector<Workload> every_claimed_shape(const Task& task, const Variant& variant) {
  std::vector<Workload> all;
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
    std::ranges::copy(claimed_shapes(task, stage, variant), std::back_inserter(all));
  std::ranges::copy(holdout_workloads(task, variant), std::back_inserter(all));
  return all;
}

std::vector<std::vector<std::string>> macro_assignments(const Task& task, const Variant& variant,
                                                        const std::vector<Workload>& workloads,
                                                        Breadth breadth) {
  std::vector<std::vector<std::string>> assignments;
  const auto add = [&](const Workload& w) {
    std::vector<std::string> assignment = macros(variant, task, w);
    if (std::find(assignments.begin(), assignments.end(), assignment) == assignments.end())
      assignments.push_back(std::move(assignment));
  };
  const auto has = [&](const Workload& w) {
    return std::find(assignments.begin(), assignments.end(), macros(variant, task, w)) != assignments.end();
  };
  for (const Workload& w : workloads) add(w);
  if (breadth == Breadth::everything || breadth == Breadth::confirming) {
    for (const Workload& w : every_claimed_shape(task, variant)) add(w);
  } else if (breadth == Breadth::contender) {
    std::vector<Workload> shapes = shapes_for_errors(task, variant, workloads);
    if (shapes.size() > most_shapes_for_errors) shapes.resize(most_shapes_for_errors);
    for (const Workload& w : shapes) add(w);
  } else if (breadth == Breadth::searching) {
    for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge}) {
      const std::vector<Workload> shapes = claimed_shapes(task, stage, variant);
      if (!shapes.empty() && std::none_of(shapes.begin(), shapes.end(), has)) add(shapes.front());
    }
  }
  const std::vector<Workload> smoke = claimed_shapes(task, Stage::smoke, variant);
  for (const Workload& w : smoke) {
    const auto found = std::find(assignments.begin(), assignments.end(), macros(variant, task, w));
    if (found == assignments.end()) continue;
    std::rotate(assignments.begin(), found, found + 1);
    break;
  }
  return assignments;
}

std::optional<Evaluation> illegal_on_check_shapes(const Task& task, const Variant& variant,
                                                  const Facts& facts) {
  const auto illegal = [&](const Workload& shape, const std::string& where) -> std::optional<Evaluation> {
    if (auto plan = legal_plan(variant, task, shape, facts, where); !plan) return std::move(plan.error());
    return std::nullopt;
  };
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::stress, Stage::edge})
    for (const Workload& shape : claimed_shapes(task, stage, variant))
      if (auto why = illegal(shape, fmt::format("the check shape {} ({})", shape.name, name_of(stage))))
        return why;
  for (const Workload& workload : holdout_workloads(task, variant))
    if (auto why = illegal(workload, fmt::format("{} (holdout)", workload.name))) return why;
  return std::nullopt;
}

const WorkloadSet& choose_workloads(const Task& task, const std::string& set, Target target) {
  if (!set.empty()) {
    if (const WorkloadSet* found = task.workloads(set)) return *found;
    std::vector<std::string> known;
    for (const WorkloadSet& each : task.workload_sets) known.push_back(each.name);
    throw InputError(
        fmt::format("task {} has no workload set '{}'{}", task.name, set, did_you_mean(set, known)));
  }
  for (const std::string& name : target->usual_workloads)
    if (const WorkloadSet* found = task.workloads(name)) return *found;
  if (task.workload_sets.empty()) throw InputError(fmt::format("task {} has no workload set", task.name));
  for (const WorkloadSet& each : task.workload_sets)
    if (each.name != "holdout" && !is_of_another(each, target)) return each;
  return task.workload_sets.front();
}

std::vector<Workload> claimed(const Variant& variant, const Task& task,
                              const std::vector<Workload>& workloads) {
  std::vector<Workload> result;
  for (const Workload& workload : workloads)
    if (claims(variant, task, workload)) result.push_back(workload);
  return result;
}

bool applies(const Task& task, const StressCase& stress, const Workload& workload) {
  for (const auto& [name, replaced] : stress.fills) {
    const TensorSpec& tensor = *task.tensor(name);
    const Fill fill = task.fill(replaced, workload), usual = task.fill(tensor.fill, workload);
    if (!is_whole(fill.kind)) continue;
    const auto extent = static_cast<double>(extent_along(usual.axis, task.shape(tensor, workload)));
    const double greatest = usual.kind == Fill::Kind::permutation ? usual.a + extent : usual.b;
    if (fill.kind != Fill::Kind::integers || fill.a < std::min(0.0, usual.a) || fill.b > greatest ||
        fill.b <= fill.a)
      return false;
  }
  return true;
}

}  // namespace cultivar
