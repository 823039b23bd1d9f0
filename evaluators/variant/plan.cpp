// One workload's plan: every expression of the manifest evaluated, every limit checked.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluators/variant/plan_scope.hpp"

namespace cultivar {
namespace {

constexpr std::int64_t most_threads = 1024;

// A number with everything that C++ needs to take it for that type.
std::string literal(Dtype type, double value) {
  if (!is_floating(type)) return fmt::format("{}", static_cast<std::int64_t>(value));
  if (type == Dtype::f64) {
    std::string text = fmt::format("{}", value);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  std::string text = fmt::format("{}", static_cast<float>(round_to(type, value)));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string type_macro(TargetKind target, Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return "double";
    case Dtype::f32:
      return "float";
    case Dtype::f16:
      return target == TargetKind::cuda ? "__half" : "_Float16";
    case Dtype::bf16:
      return target == TargetKind::cuda ? "__nv_bfloat16" : "unsigned short";
    case Dtype::i64:
      return "long long";
    case Dtype::i32:
      return "int";
    case Dtype::i16:
      return "short";
    case Dtype::i8:
      return "signed char";
    case Dtype::u64:
      return "unsigned long long";
    case Dtype::u32:
      return "unsigned";
    case Dtype::u16:
      return "unsigned short";
    case Dtype::u8:
      return "unsigned char";
  }
  return "";
}

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
      add_kernel(fmt::format("launch[{}]", i), manifest_.launch[i]);
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
    if (tensor == nullptr || buffer < 0)
      return fail("tensor_maps." + spec.name, "names no tensor of the task");
    Expected<PlannedTensorMap> map =
        plan_tensor_map(spec, buffer, task_.dtype(*tensor, workload_),
                        plan_.buffers[static_cast<std::size_t>(buffer)].bytes, scope_);
    if (!map) {
      if (error_.empty()) error_ = fmt::format("{} (workload {})", map.error().message, workload_.name);
      return;
    }
    plan_.tensor_maps.push_back(*std::move(map));
  }

  void add_kernel(const std::string& path, const KernelLaunch& launch) {
    PlannedKernel kernel;
    kernel.kernel = launch.kernel;
    if (manifest_.target == TargetKind::cpu) {
      const Expression threads = launch.threads ? *launch.threads : Expression::parse("num_cores").value();
      kernel.threads = static_cast<int>(integer(path + ".threads", threads, 1, most_threads));
    } else {
      add_geometry(path, launch, kernel);
    }
    for (std::size_t i = 0; i < launch.args.size(); ++i)
      kernel.args.push_back(argument(fmt::format("{}.args[{}]", path, i), launch.args[i]));
    plan_.kernels.push_back(std::move(kernel));
  }

  void add_geometry(const std::string& path, const KernelLaunch& launch, PlannedKernel& kernel) {
    constexpr std::array<std::int64_t, 3> grid_limit{2147483647, 65535, 65535}, block_limit{1024, 1024, 64};
    const auto each = [&](const char* key, const std::vector<Expression>& from, auto& to, const auto& limit) {
      for (std::size_t i = 0; i < from.size() && i < 3; ++i)
        to[i] =
            static_cast<std::uint32_t>(integer(fmt::format("{}.{}[{}]", path, key, i), from[i], 1, limit[i]));
    };
    constexpr std::array<std::int64_t, 3> cluster_limit{16, 16, 16};
    each("grid", launch.grid, kernel.grid, grid_limit);
    each("block", launch.block, kernel.block, block_limit);
    each("cluster", launch.cluster, kernel.cluster, cluster_limit);
    const auto product = [](const std::array<std::uint32_t, 3>& v) {
      return std::uint64_t{v[0]} * v[1] * v[2];
    };
    if (product(kernel.block) > 1024)
      fail(path + ".block", fmt::format("has {} threads; the limit is 1024", product(kernel.block)));
    if (product(kernel.cluster) > 16)
      fail(path + ".cluster",
           fmt::format("has {} blocks; the limit is 16 (8 is portable)", product(kernel.cluster)));
    for (std::size_t i = 0; i < 3; ++i)
      if (kernel.cluster[i] != 0 && kernel.grid[i] % kernel.cluster[i] != 0)
        fail(fmt::format("{}.grid[{}]", path, i),
             fmt::format("{} is not a multiple of the cluster's {} (round_up it)", kernel.grid[i],
                         kernel.cluster[i]));
    if (launch.shared) {
      const auto fact = scope_.find("smem_max");
      const std::int64_t most = fact == scope_.end() ? 232448 : static_cast<std::int64_t>(fact->second);
      kernel.shared_bytes = static_cast<std::size_t>(integer(path + ".shared", *launch.shared, 0, most));
    }
    kernel.cooperative = launch.cooperative;
    kernel.programmatic_dependent = launch.programmatic_dependent;
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
    if (spec.text == "thread" || spec.text == "threads") {
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
      fail(path,
           fmt::format("{}, which is no {} (write {{value: \"{}\", type: {}}})", said(spec.text, *value),
                       name_of(argument.type), spec.text, *value == std::floor(*value) ? "i64" : "f32"));
    if (is_floating(argument.type) && !std::isfinite(argument.value))
      fail(path, fmt::format("{}, too large for {}", said(spec.text, *value), name_of(argument.type)));
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
  std::string error_;  // the first
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

Expected<void> check_constraints(const Variant& variant, const Task& task, const Workload& workload,
                                 const Facts& facts) {
  const Expected<Bindings> scope = scope_of(variant, task, workload, facts);
  if (!scope) return tl::make_unexpected(scope.error());
  for (const Expression& constraint : variant.manifest.constraints) {
    const Expected<double> holds = constraint.evaluate(*scope);
    if (!holds)
      return failure("constraints", fmt::format("{} (workload {})", holds.error().message, workload.name));
    if (*holds != 0.0) continue;
    std::string numbers;
    for (const std::string& name : constraint.names())
      numbers += fmt::format("{}{}={}", numbers.empty() ? "" : ", ", name, scope->at(name));
    const std::string chosen = to_string(variant.manifest.tunables, variant.configuration);
    return failure("constraints", fmt::format("the constraint '{}' does not hold{}{} (workload {}{}{})",
                                              constraint.text(), numbers.empty() ? "" : ": ", numbers,
                                              workload.name, chosen.empty() ? "" : "; ", chosen));
  }
  return {};
}

Expected<Plan> make_plan(const Variant& variant, const Task& task, const Workload& workload,
                         const Facts& facts) {
  Expected<Bindings> scope = scope_of(variant, task, workload, facts);
  if (!scope) return tl::make_unexpected(scope.error());
  return Planner(variant, task, workload, *std::move(scope)).plan();
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
      result.push_back("DTYPE=" + type_macro(variant.manifest.target, workload.dtype));
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
    result.push_back(fmt::format("{}={}", name, literal(type, value)));
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace cultivar
