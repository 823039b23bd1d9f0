// SPDX-License-Identifier: Apache-2.0
// The plan for one workload: every expression of the manifest evaluated, every limit checked.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/plan_scope.hpp"

namespace cultivar {
namespace {

constexpr std::size_t most_planned_kernels = 64;

class Planner {
 public:
  Planner(const Variant& variant, const Task& task, const Workload& workload, Bindings scope)
      : manifest_(variant.manifest), task_(task), workload_(workload), scope_(std::move(scope)) {}

  Expected<Plan> plan() {
    for (const TensorSpec& tensor : task_.tensors)
      plan_.buffers.push_back(
          {tensor.name, task_.bytes_of(tensor, workload_),
           tensor.role == Role::input ? PlannedBuffer::Use::input : PlannedBuffer::Use::output, false,
           size_of(task_.dtype(tensor, workload_))});
    for (const WorkspaceSpec& workspace : manifest_.workspace) {
      const std::int64_t bytes = integer(fmt::format("workspace.{}.bytes", workspace.name), workspace.bytes,
                                         0, std::int64_t{1} << 40);
      plan_.buffers.push_back(
          {workspace.name, static_cast<std::size_t>(bytes), PlannedBuffer::Use::workspace, workspace.zero});
    }
    for (const TensorMapSpec& map : manifest_.tensor_maps) add_tensor_map(map);
    for (std::size_t i = 0; i < manifest_.launch.size(); ++i)
      add_launch(fmt::format("launch[{}]", i), manifest_.launch[i]);
    if (plan_.kernels.empty()) fail("launch", "no kernel runs (every `when` is 0)");
    if (!error_.empty()) return failure("plan", error_);
    return std::move(plan_);
  }

 private:
  void fail(const std::string& path, const std::string& what) {
    if (error_.empty()) error_ = fmt::format("{}: {} (workload {})", path, what, workload_.name);
  }

  std::int64_t integer(const std::string& path, const Expression& expression, std::int64_t least,
                       std::int64_t most) {
    const Expected<std::int64_t> value = expression.evaluate_integer(scope_, least);
    if (!value) {
      fail(path, value.error().message);
      return least;
    }
    if (*value > most) fail(path, fmt::format("{}; the limit is {}", said(expression.text(), *value), most));
    return *value;
  }

  int buffer_index(const std::string& name) const {
    const auto found = std::find_if(plan_.buffers.begin(), plan_.buffers.end(),
                                    [&](const auto& b) { return b.name == name; });
    return found == plan_.buffers.end() ? -1 : static_cast<int>(found - plan_.buffers.begin());
  }

  void add_tensor_map(const TensorMapSpec& spec) {
    const TensorSpec* tensor = task_.tensor(spec.tensor);
    const int buffer = buffer_index(spec.tensor);
    if (buffer < 0 || (tensor == nullptr && !spec.dtype))
      return fail("tensor_maps." + spec.name,
                  "names neither a tensor of the task nor a workspace with a dtype");
    Expected<PlannedTensorMap> map = manifest_.target->plan_tensor_map(
        spec, buffer, tensor != nullptr ? task_.dtype(*tensor, workload_) : *spec.dtype,
        plan_.buffers[static_cast<std::size_t>(buffer)].bytes, scope_);
    if (!map) {
      if (error_.empty()) error_ = fmt::format("{} (workload {})", map.error().message, workload_.name);
      return;
    }
    plan_.tensor_maps.push_back(*std::move(map));
  }

  void add_launch(const std::string& path, const KernelLaunch& launch) {
    if (launch.when) {
      const Expected<double> holds = launch.when->evaluate(scope_);
      if (!holds) return fail(path + ".when", holds.error().message);
      if (*holds == 0.0) return;
    }
    if (!launch.repeat) return add_kernel(path, launch);
    const std::int64_t steps =
        integer(path + ".repeat", *launch.repeat, 0, static_cast<std::int64_t>(most_planned_kernels));
    for (std::int64_t step = 0; step < steps && error_.empty(); ++step) {
      scope_["step"] = static_cast<double>(step);
      add_kernel(path, launch);
    }
    scope_.erase("step");
  }

  void add_kernel(const std::string& path, const KernelLaunch& launch) {
    if (plan_.kernels.size() == most_planned_kernels)
      return fail(path, fmt::format("the plan would have more than {} kernels", most_planned_kernels));
    PlannedKernel kernel;
    kernel.kernel = launch.kernel;
    // Those of the language are in the machine code; only their limits are checked here.
    LaunchNumbers of_language;
    for (const LaunchKey& key : manifest_.language->launch_keys)
      add_launch_key(path, key, launch, of_language);
    for (const LaunchKey& key : manifest_.target->launch_keys)
      add_launch_key(path, key, launch, kernel.launch);
    if (manifest_.target->launch_trouble != nullptr && error_.empty())
      if (const auto trouble = manifest_.target->launch_trouble(kernel.launch, scope_))
        fail(fmt::format("{}.{}", path, trouble->key), trouble->what);
    for (std::size_t i = 0; i < launch.args.size(); ++i)
      kernel.args.push_back(argument(fmt::format("{}.args[{}]", path, i), launch.args[i]));
    plan_.kernels.push_back(std::move(kernel));
  }

  void add_launch_key(const std::string& path, const LaunchKey& key, const KernelLaunch& launch,
                      LaunchNumbers& numbers) {
    std::vector<Expression> values = launch.values(key.name);
    if (values.empty() && !key.fallback.empty()) values.push_back(Expression::parse(key.fallback).value());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t most = key.most[i];
      if (const auto fact = scope_.find(key.most_fact); fact != scope_.end())
        most = static_cast<std::int64_t>(fact->second);
      const std::string place = values.size() == 1 ? fmt::format("{}.{}", path, key.name)
                                                   : fmt::format("{}.{}[{}]", path, key.name, i);
      numbers.add(key.name, integer(place, values[i], key.least, most));
    }
  }

  PlannedArgument argument(const std::string& path, const ArgumentSpec& spec) {
    PlannedArgument argument;
    if (const int buffer = buffer_index(spec.text); buffer >= 0) {
      argument.kind = PlannedArgument::Kind::buffer;
      argument.index = buffer;
      return argument;
    }
    for (std::size_t i = 0; i < plan_.tensor_maps.size(); ++i)
      if (plan_.tensor_maps[i].name == spec.text) {
        argument.kind = PlannedArgument::Kind::tensor_map;
        argument.index = static_cast<int>(i);
        return argument;
      }
    if (manifest_.target->thread_arguments && (spec.text == "thread" || spec.text == "threads")) {
      argument.kind = spec.text == "thread" ? PlannedArgument::Kind::thread : PlannedArgument::Kind::threads;
      return argument;
    }
    argument.type = spec.type.value_or(usual_type(spec.text));
    const Expected<Expression> expression = Expression::parse(spec.text);
    const Expected<double> value =
        expression ? expression->evaluate(scope_) : tl::make_unexpected(expression.error());
    if (!value) {
      fail(path, value.error().message);
      return argument;
    }
    argument.value = round_to(argument.type, *value);
    if (!is_floating(argument.type) && argument.value != *value)
      fail(path, fmt::format("{}, which is not of type {} (write {{value: \"{}\", type: {}}})",
                             said(spec.text, *value), name_of(argument.type), spec.text,
                             *value == std::floor(*value) ? "i64" : "f32"));
    if (is_floating(argument.type) && !std::isfinite(argument.value))
      fail(path,
           fmt::format("{}, which is too large for {}", said(spec.text, *value), name_of(argument.type)));
    return argument;
  }

  Dtype usual_type(const std::string& name) const {
    for (const Parameter& p : task_.parameters)
      if (p.name == name) return p.type;
    return Dtype::i32;
  }

  const Manifest& manifest_;
  const Task& task_;
  const Workload& workload_;
  Bindings scope_;
  Plan plan_;
  std::string error_;  // the first error
};

}  // namespace

Expected<Bindings> scope_of(const Variant& variant, const Task& task, const Workload& workload,
                            const Facts& facts) {
  Bindings scope = task.bindings(workload);
  scope.merge(bindings(variant.manifest.tunables, variant.configuration));
  for (const auto& [name, value] : facts) scope.try_emplace(name, value);
  for (const auto& [name, expression] : variant.manifest.let) {
    const Expected<double> value = expression.evaluate(scope);
    if (!value)
      return failure("plan",
                     fmt::format("let.{}: {} (workload {})", name, value.error().message, workload.name));
    scope[name] = *value;
  }
  return scope;
}

bool claims(const Variant& variant, const Task& task, const Workload& workload) {
  if (!variant.manifest.requires_) return true;
  const Expected<double> holds = variant.manifest.requires_->evaluate(task.bindings(workload));
  return holds && *holds != 0.0;
}

tl::expected<void, Unmet> check_constraints(const Variant& variant, const Task& task,
                                            const Workload& workload, const Facts& facts) {
  const Expected<Bindings> scope = scope_of(variant, task, workload, facts);
  if (!scope) return tl::make_unexpected(Unmet{scope.error().message, false});
  for (const Expression& constraint : variant.manifest.constraints) {
    const Expected<double> holds = constraint.evaluate(*scope);
    if (!holds)
      return tl::make_unexpected(
          Unmet{fmt::format("the constraint {} (workload {})", holds.error().message, workload.name), false});
    if (*holds != 0.0) continue;
    std::string numbers;
    for (const std::string& name : constraint.names())
      numbers += fmt::format("{}{}={}", numbers.empty() ? "" : ", ", name, scope->at(name));
    const std::string chosen = to_string(variant.manifest.tunables, variant.configuration);
    return tl::make_unexpected(Unmet{fmt::format("the constraint '{}' does not hold{}{} (workload {}{}{})",
                                                 constraint.text(), numbers.empty() ? "" : ": ", numbers,
                                                 workload.name, chosen.empty() ? "" : "; ", chosen)});
  }
  return {};
}

Expected<Plan> make_plan(const Variant& variant, const Task& task, const Workload& workload,
                         const Facts& facts) {
  Expected<Bindings> scope = scope_of(variant, task, workload, facts);
  if (!scope) return tl::make_unexpected(scope.error());
  return Planner(variant, task, workload, *std::move(scope)).plan();
}

std::optional<ManifestError> illegal_on(const std::vector<Workload>& workloads, const Variant& variant,
                                        const Task& task, const Facts& facts) {
  for (const Workload& workload : workloads) {
    if (const auto holds = check_constraints(variant, task, workload, facts); !holds)
      return ManifestError{line_of(variant.source, "constraints"), holds.error().message};
    if (const auto plan = make_plan(variant, task, workload, facts); !plan) {
      // "launch[0].block[0]: ..." begins with the place in the manifest.
      const std::string& why = plan.error().message;
      return ManifestError{line_of(variant.source, why.substr(0, why.find(": "))), why};
    }
  }
  return std::nullopt;
}

Bindings device_free_numbers(const Variant& variant, const Task& task, const Workload& workload) {
  Bindings numbers = task.bindings(workload);
  numbers.merge(bindings(variant.manifest.tunables, variant.configuration));
  for (const auto& [name, expression] : variant.manifest.let)
    if (std::ranges::all_of(expression.names(), [&](const auto& n) { return numbers.contains(n); }))
      if (const Expected<double> value = expression.evaluate(numbers)) numbers[name] = *value;
  return numbers;
}

std::vector<std::string> macros(const Variant& variant, const Task& task, const Workload& workload) {
  const Language language = variant.manifest.language;
  std::vector<std::string> result;
  for (const Tunable& tunable : variant.manifest.tunables) {
    const auto found = variant.configuration.find(tunable.name);
    const TunableValue& value = found == variant.configuration.end() ? tunable.fallback : found->second;
    if (!tunable.categorical()) {
      result.push_back(fmt::format("{}={}", tunable.name, to_string(value)));
      continue;
    }
    result.push_back(fmt::format("{}={}_{}", tunable.name, tunable.name, to_string(value)));
    for (std::size_t i = 0; i < tunable.values.size(); ++i)
      result.push_back(fmt::format("{}_{}={}", tunable.name, to_string(tunable.values[i]), i));
  }
  for (const std::string& name : variant.manifest.specialize) {
    if (name == "dtype") {
      std::string upper(name_of(workload.dtype));
      std::transform(upper.begin(), upper.end(), upper.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
      result.push_back(fmt::format("DTYPE={}", language->types.at(static_cast<std::size_t>(workload.dtype))));
      result.push_back(fmt::format("DTYPE_{}=1", upper));
      continue;
    }
    const auto given = workload.values.find(name);
    const double value = given != workload.values.end()
                             ? given->second
                             : device_free_numbers(variant, task, workload).at(name);
    Dtype type = value == std::floor(value) ? Dtype::i64 : Dtype::f64;
    for (const Parameter& p : task.parameters)
      if (p.name == name) type = p.type;
    result.push_back(fmt::format("{}={}", name, language->literal(type, value)));
  }
  std::sort(result.begin(), result.end());
  return result;
}

Plan in_place(const Task& task, Plan plan) {
  for (std::size_t output = 0; output < task.tensors.size(); ++output) {
    const std::string& name = task.tensors[output].in_place;
    if (name.empty()) continue;
    const auto input =
        static_cast<int>(std::ranges::find(task.tensors, name, &TensorSpec::name) - task.tensors.begin());
    plan.buffers[output].starts_as = input;
    for (PlannedKernel& kernel : plan.kernels)
      for (PlannedArgument& argument : kernel.args)
        if (argument.kind == PlannedArgument::Kind::buffer && argument.index == input)
          argument.index = static_cast<int>(output);
    for (PlannedTensorMap& map : plan.tensor_maps)
      if (map.buffer == input) map.buffer = static_cast<int>(output);
  }
  return plan;
}

}  // namespace cultivar
