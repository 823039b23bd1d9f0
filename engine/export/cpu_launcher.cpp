#include "engine/export/cpu_launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "embedded/launcher.hpp"
#include "engine/export/cpp_expression.hpp"
#include "engine/export/render.hpp"

namespace cultivar {
namespace {

std::string literal(double value) {
  return fmt::format("{}", value).find_first_of(".en") == std::string::npos ? fmt::format("{}.0", value)
                                                                            : fmt::format("{:.17g}", value);
}

std::string_view cpp_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return "double";
    case Dtype::f32:
      return "float";
    case Dtype::i64:
      return "std::int64_t";
    case Dtype::i32:
      return "std::int32_t";
    case Dtype::i16:
      return "std::int16_t";
    case Dtype::i8:
      return "std::int8_t";
    case Dtype::u64:
      return "std::uint64_t";
    case Dtype::u32:
      return "std::uint32_t";
    case Dtype::u16:
    case Dtype::f16:
    case Dtype::bf16:
      return "std::uint16_t";  // bits
    case Dtype::u8:
      return "std::uint8_t";
  }
  return "void";
}

std::string entry(const std::string& kernel, const Specialisation& specialisation) {
  return kernel + "__" + specialisation.suffix;
}

std::string parameter_type(const PlannedArgument& argument, const Plan& plan, const LauncherInput& input) {
  using Kind = PlannedArgument::Kind;
  if (argument.kind == Kind::thread || argument.kind == Kind::threads) return "std::int32_t";
  if (argument.kind != Kind::buffer) return std::string(cpp_type(argument.type));
  const auto& buffer = plan.buffers[static_cast<std::size_t>(argument.index)];
  if (buffer.use == PlannedBuffer::Use::workspace) return "void*";
  const auto* tensor = input.task.tensor(buffer.name);
  const auto type = cpp_type(input.task.dtype(*tensor, input.workloads.front()));
  return fmt::format("{}{}*", buffer.use == PlannedBuffer::Use::input ? "const " : "", type);
}

// Statements that bind every name an expression may use, in an order in which each is known before it is
// used.
Expected<std::string> bindings_text(const LauncherInput& input) {
  std::string text;
  auto bind = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    [[maybe_unused]] const double {} = {};\n", name, value);
  };
  for (const auto& dimension : input.task.dimensions)
    bind(dimension.name, fmt::format("double(arguments.{})", dimension.name));
  for (const auto& parameter : input.task.parameters)
    bind(parameter.name, fmt::format("double(arguments.{})", parameter.name));
  const auto task_bindings = input.task.bindings(input.workloads.front());
  for (auto dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const auto name = name_of(dtype);
    const auto code = Expression::parse(std::string(name))->evaluate({});
    if (code) bind(std::string(name), literal(*code));
  }
  if (const auto it = task_bindings.find("dtype"); it != task_bindings.end())
    bind("dtype", literal(it->second));
  for (const auto& [name, value] : input.facts)
    bind(name, name == "num_cores" ? "double(cores_)" : literal(value));
  for (const auto& [name, value] : bindings(input.variant.manifest.tunables, input.variant.configuration))
    bind(name, literal(value));
  for (const auto* lets : {&input.task.let, &input.variant.manifest.let})
    for (const auto& [name, expression] : *lets) {
      auto cpp = to_cpp(expression);
      if (!cpp) return tl::make_unexpected(cpp.error());
      bind(name, *cpp);
    }
  return text;
}

std::string call_arguments(const PlannedKernel& kernel, const KernelLaunch& launch, const Plan& plan,
                           const LauncherInput& input, std::string& trouble) {
  using Kind = PlannedArgument::Kind;
  std::vector<std::string> values;
  for (std::size_t a = 0; a < kernel.args.size(); ++a) {
    const auto& argument = kernel.args[a];
    const auto type = parameter_type(argument, plan, input);
    if (argument.kind == Kind::thread) {
      values.emplace_back("thread");
    } else if (argument.kind == Kind::threads) {
      values.emplace_back("threads");
    } else if (argument.kind == Kind::buffer) {
      const auto index = static_cast<std::size_t>(argument.index);
      const auto tensors = input.task.tensors.size();
      values.push_back(index < tensors ? fmt::format("arguments.{}", plan.buffers[index].name)
                                       : fmt::format("places[{}]", index - tensors));
    } else {
      auto parsed = Expression::parse(launch.args[a].text);
      auto cpp = parsed ? to_cpp(*parsed) : tl::make_unexpected(parsed.error());
      if (!cpp) trouble = cpp.error().message;
      values.push_back(fmt::format("static_cast<{}>({})", type, cpp.value_or("0")));
    }
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

}  // namespace

std::string pascal_case(std::string_view name) {
  std::string result;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
    } else {
      result += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return result;
}

std::vector<Specialisation> specialisations(const LauncherInput& input) {
  std::vector<Specialisation> result;
  for (const auto& workload : input.workloads) {
    Specialisation candidate;
    candidate.macros = macros(input.variant, input.task, workload);
    const auto known = [&](const Specialisation& s) { return s.macros == candidate.macros; };
    if (std::any_of(result.begin(), result.end(), known)) continue;
    const auto values = input.task.bindings(workload);
    for (const auto& name : input.variant.manifest.specialize) {
      const auto it = values.find(name);
      if (name == "dtype" || it == values.end()) continue;
      candidate.condition.emplace_back(name, it->second);
      auto text = fmt::format("{}{:g}", name, it->second);
      std::replace_if(
          text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
      candidate.suffix += (candidate.suffix.empty() ? "" : "_") + text;
    }
    if (candidate.suffix.empty()) candidate.suffix = "any";
    result.push_back(std::move(candidate));
  }
  return result;
}

Expected<std::string> launcher_header(const LauncherInput& input, const std::vector<Specialisation>& served) {
  const auto plan = make_plan(input.variant, input.task, input.workloads.front(), input.facts);
  if (!plan) return tl::make_unexpected(plan.error());
  const auto& manifest = input.variant.manifest;

  std::string declarations = "// The kernels, one set for each specialisation.\n";
  for (const auto& specialisation : served)
    for (const auto& kernel : plan->kernels) {
      std::vector<std::string> types;
      for (const auto& argument : kernel.args) types.push_back(parameter_type(argument, *plan, input));
      declarations += fmt::format("extern \"C\" void {}({});\n", entry(kernel.kernel, specialisation),
                                  fmt::join(types, ", "));
    }

  std::string members;
  for (const auto& dimension : input.task.dimensions)
    members += fmt::format("  std::int64_t {} = 1;  // {}\n", dimension.name, dimension.about);
  for (const auto& parameter : input.task.parameters)
    members += fmt::format("  {} {} = {};  // {}\n", parameter.flag ? "bool" : cpp_type(parameter.type),
                           parameter.name, parameter.flag ? "false" : "0", parameter.about);
  for (const auto& tensor : input.task.tensors)
    members += fmt::format("  {}{}* {} = nullptr;  // {} [{}]\n", tensor.role == Role::input ? "const " : "",
                           cpp_type(input.task.dtype(tensor, input.workloads.front())), tensor.name,
                           tensor.role == Role::input ? "in" : "out", fmt::join(tensor.shape, ", "));

  auto bound = bindings_text(input);
  if (!bound) return bound;
  std::string prepare = *bound;
  auto require = [&](const Expression& expression, const std::string& message) -> Expected<void> {
    auto cpp = to_cpp(expression);
    if (!cpp) return tl::make_unexpected(cpp.error());
    prepare += fmt::format("    if (({}) == 0.0) throw std::invalid_argument(\"{}\");\n", *cpp, message);
    return {};
  };
  for (const auto& relation : input.task.where)
    if (auto ok = require(relation, fmt::format("{}: needs {}", input.task.name, relation.text())); !ok)
      return tl::make_unexpected(ok.error());
  if (manifest.requires_)
    if (auto ok = require(*manifest.requires_, fmt::format("{}: this kernel needs {}", input.task.name,
                                                           manifest.requires_->text()));
        !ok)
      return tl::make_unexpected(ok.error());

  std::vector<std::string> sizes;
  std::string zeroed;
  for (std::size_t w = 0; w < manifest.workspace.size(); ++w) {
    auto cpp = to_cpp(manifest.workspace[w].bytes);
    if (!cpp) return cpp;
    sizes.push_back(fmt::format("std::size_t(whole({}, \"the size of workspace {}\"))", *cpp,
                                manifest.workspace[w].name));
    if (manifest.workspace[w].zero)
      zeroed += fmt::format("    std::memset(places[{0}], 0, sizes[{0}]);\n", w);
  }
  prepare += fmt::format("    const std::vector<std::size_t> sizes{{{}}};\n", fmt::join(sizes, ", "));
  prepare += "    [[maybe_unused]] const auto places = room(sizes);\n" + zeroed;

  std::string trouble;
  for (std::size_t s = 0; s < served.size(); ++s) {
    std::vector<std::string> tests;
    for (const auto& [name, value] : served[s].condition)
      tests.push_back(fmt::format("{} == {}", name, literal(value)));
    prepare += fmt::format("    {}if ({}) {{\n", s ? "} else " : "",
                           tests.empty() ? "true" : fmt::format("{}", fmt::join(tests, " && ")));
    for (std::size_t k = 0; k < plan->kernels.size(); ++k) {
      const auto& launch = manifest.launch[k];
      auto threads = to_cpp(launch.threads.value_or(*Expression::parse("num_cores")));
      if (!threads) return threads;
      prepare += fmt::format(
          "      launches_.push_back({{std::clamp(int(whole({}, \"threads\")), 1, cores_),\n"
          "                           [=](int thread, int threads) {{\n"
          "        {}({});\n      }}}});\n",
          *threads, entry(launch.kernel, served[s]),
          call_arguments(plan->kernels[k], launch, *plan, input, trouble));
    }
  }
  if (!trouble.empty()) return failure("export", trouble);
  std::vector<std::string> names;
  for (const auto& specialisation : served) names.push_back(specialisation.suffix);
  prepare +=
      fmt::format("    }} else {{\n      throw std::invalid_argument(\"{}: built for {} only\");\n    }}\n",
                  input.task.name, fmt::join(names, ", "));

  return render(launcher::launcher_hpp,
                {{"class", pascal_case(input.task.name)},
                 {"summary", input.task.summary},
                 {"variant", manifest.name},
                 {"id", input.variant.id.substr(0, 12)},
                 {"first_dimension", input.task.dimensions.front().name},
                 {"first_tensor_comment", fmt::format(".{} = ...", input.task.tensors.front().name)},
                 {"declarations", declarations},
                 {"members", members},
                 {"prepare", prepare}});
}

std::string verify_data(const LauncherInput& input) {
  const auto& task = input.task;
  std::string text =
      "// The task as data for verify.cpp; generated.\n#pragma once\n\n#include <vector>\n\nnamespace "
      "verify_data {\n\n"
      "struct Tensor {\n  const char* name;\n  bool output, uniform;\n  double a, b;\n  std::vector<const "
      "char*> shape;\n"
      "};\nstruct Workload {\n  const char* name;\n  std::vector<ReferenceNumber> numbers;\n  double cost;\n"
      "  std::int64_t row_elements;\n};\n\n";
  text += fmt::format("const double factor = {}, floor_eps = {}, epsilon = {};\n", task.tolerance.factor,
                      task.tolerance.floor_eps, accumulation_epsilon(input.workloads.front().dtype));
  text += "const std::vector<const char*> row_dimensions{";
  for (const auto& row : task.rows) text += fmt::format("\"{}\", ", row);
  text += "};\nconst std::vector<Tensor> tensors{\n";
  for (const auto& tensor : task.tensors) {
    text += fmt::format("    {{\"{}\", {}, {}, {}, {}, {{", tensor.name, tensor.role == Role::output,
                        tensor.fill.kind == Fill::Kind::uniform, tensor.fill.a, tensor.fill.b);
    for (const auto& dimension : tensor.shape) text += fmt::format("\"{}\", ", dimension);
    text += "}},\n";
  }
  text += "};\nconst std::vector<Workload> workloads{\n";
  for (const auto& workload : input.workloads) {
    std::int64_t row_elements = 0;
    for (const auto& tensor : task.tensors) {
      if (tensor.role != Role::output) continue;
      std::int64_t elements = 1;
      for (const auto& dimension : tensor.shape)
        if (std::find(task.rows.begin(), task.rows.end(), dimension) == task.rows.end())
          elements *= static_cast<std::int64_t>(workload.values.at(dimension));
      row_elements += elements;
    }
    text += fmt::format("    {{\"{}\", {{", workload.name);
    for (const auto& [name, value] : task.bindings(workload))
      text += fmt::format("{{\"{}\", {}}}, ", name, literal(value));
    text +=
        fmt::format("}}, {}, {}}},\n",
                    literal(task.cost.by_bytes ? task.bytes(workload) : task.flops(workload)), row_elements);
  }
  text += "};\n\n";

  // The workload's arguments for the launcher.
  text += fmt::format(
      "inline cultivar_export::{0}Arguments bind(const Workload& workload, std::vector<std::vector<float>>& "
      "buffers) {{\n"
      "  auto number = [&](const char* name) {{\n    for (const auto& n : workload.numbers)\n"
      "      if (std::strcmp(n.name, name) == 0) return n.value;\n    return 0.0;\n  }};\n"
      "  cultivar_export::{0}Arguments arguments;\n",
      pascal_case(task.name));
  for (const auto& dimension : task.dimensions)
    text += fmt::format("  arguments.{0} = static_cast<std::int64_t>(number(\"{0}\"));\n", dimension.name);
  for (const auto& parameter : task.parameters)
    text += fmt::format("  arguments.{0} = static_cast<decltype(arguments.{0})>(number(\"{0}\"));\n",
                        parameter.name);
  for (std::size_t t = 0; t < task.tensors.size(); ++t)
    text += fmt::format("  arguments.{} = buffers[{}].data();\n", task.tensors[t].name, t);
  return text + "  return arguments;\n}\n\n}  // namespace verify_data\n";
}

std::string cmake_kernels(const LauncherInput& input, const std::vector<Specialisation>& served) {
  std::set<std::string> entries;
  for (const auto& launch : input.variant.manifest.launch) entries.insert(launch.kernel);
  std::string text;
  for (const auto& specialisation : served)
    text += fmt::format("cultivar_kernel({} \"{}\" {})\n", specialisation.suffix, fmt::join(entries, ";"),
                        fmt::join(specialisation.macros, " "));
  return text;
}

}  // namespace cultivar
