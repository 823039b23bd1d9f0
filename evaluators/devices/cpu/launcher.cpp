// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "embedded/cpu_templates.hpp"
#include "evaluators/languages/cpp/compiler.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/index_inputs.hpp"
#include "evaluators/launchers/late_parts.hpp"
#include "evaluators/launchers/render.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

// Unique names, because a program may contain several exports; CMakeLists.txt defines them.
std::string entry(const std::string& kernel, const Variant& variant, const Specialisation& specialisation) {
  return fmt::format("{}__{}_{}", kernel, short_identity(variant), specialisation.suffix);
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

// The user chooses the number of cores.
std::string host_fact(const std::string& name, double value) {
  return name == "num_cores" ? "double(cores_)" : literal(value);
}

// The arguments of a call, and the statements before it that compute scalars: those may throw, so they do not
// run in the kernel's threads.
struct Call {
  std::string scalars, arguments;
};

Call call_of(std::size_t k, const PlannedKernel& kernel, const KernelLaunch& launch, const Plan& plan,
             const LauncherInput& input, ExpressionWriter& writer) {
  using Kind = PlannedArgument::Kind;
  Call call;
  std::vector<std::string> values;
  for (std::size_t a = 0; a < kernel.args.size(); ++a) {
    const auto& argument = kernel.args[a];
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
      values.push_back(fmt::format("argument_{}_{}", k, a));
      call.scalars +=
          fmt::format("      const auto {} = {};\n", values.back(), writer.value(argument, launch.args[a]));
    }
  }
  call.arguments = fmt::format("{}", fmt::join(values, ", "));
  return call;
}

}  // namespace

Expected<std::string> cpu_launcher_header(const LauncherInput& input,
                                          const std::vector<Specialisation>& served) {
  const auto plan = plan_of_each_launch(input);
  if (!plan) return tl::make_unexpected(plan.error());
  const auto& manifest = input.variant.manifest;

  std::string declarations = "// The kernels, one set for each specialization.\n";
  for (const auto& specialisation : served)
    for (const auto& kernel : plan->kernels) {
      std::vector<std::string> types;
      for (const auto& argument : kernel.args) types.push_back(parameter_type(argument, *plan, input));
      declarations +=
          fmt::format("extern \"C\" void {}({});\n", entry(kernel.kernel, input.variant, specialisation),
                      fmt::join(types, ", "));
    }

  const auto bound = name_bindings(input, host_fact);
  if (!bound) return bound;
  const auto required = requirements(input, false);
  if (!required) return required;
  const auto accepted = acceptance(input, served, false, host_fact);
  if (!accepted) return accepted;
  const auto places = workspace_places(input, "room(sizes)");
  if (!places) return places;
  const auto names = specialisation_names(input, served, late_values(input), host_fact);
  if (!names) return names;
  std::string prepare =
      *bound + fmt::format("    if (with_tensors && {}) return false;\n", nothing_to_compute(input.task)) +
      *required;
  const auto indices = index_checks(input);
  if (!indices) return indices;
  prepare += "    if (with_tensors) {\n" +
             tensor_checks(input, fmt::format("allocate it with operator new(bytes, std::align_val_t({}))",
                                              kTensorAlignment)) +
             *indices + "    }\n";
  prepare += *places;
  for (std::size_t w = 0; w < manifest.workspace.size(); ++w)
    if (manifest.workspace[w].zero)
      prepare += fmt::format("    std::memset(places[{0}], 0, sizes[{0}]);\n", w);

  ExpressionWriter writer;
  const auto body = [&](const auto& name_of_kernel) -> Expected<std::string> {
    std::string text;
    for (std::size_t k = 0; k < plan->kernels.size(); ++k) {
      const auto& launch = manifest.launch[k];
      auto threads = to_cpp(launch.values("threads").empty() ? Expression::parse("num_cores").value()
                                                             : launch.values("threads").front());
      if (!threads) return threads;
      const Call call = call_of(k, plan->kernels[k], launch, *plan, input, writer);
      const auto statements = as_often_as_said(
          launch,
          fmt::format("{3}      launches_.push_back({{std::clamp(int(whole({0}, \"threads\")), 1, cores_),\n"
                      "                           [=](int thread, int threads) {{\n"
                      "        {1}({2});\n      }}}});\n",
                      *threads, name_of_kernel(k), call.arguments, call.scalars));
      if (!statements) return statements;
      text += *statements;
    }
    return text;
  };
  std::vector<std::string> bodies;
  for (const Specialisation& specialisation : served) {
    auto text =
        body([&](std::size_t k) { return entry(manifest.launch[k].kernel, input.variant, specialisation); });
    if (!text) return text;
    bodies.push_back("      calls_.built_in += with_tensors;\n" + *text);
  }
  std::string late = fmt::format(
      "      const std::size_t added = {};\n      calls_.supplied += with_tensors;\n", late_call(input));
  const std::vector<std::string> entries = entries_of(input.variant);
  for (std::size_t k = 0; k < plan->kernels.size(); ++k) {
    std::vector<std::string> types;
    for (const auto& argument : plan->kernels[k].args)
      types.push_back(parameter_type(argument, *plan, input));
    late += fmt::format(
        "      const auto kernel_{} = reinterpret_cast<void (*)({})>(late_[added].code->functions.at({}));\n",
        k, fmt::join(types, ", "), std::ranges::find(entries, manifest.launch[k].kernel) - entries.begin());
  }
  const auto late_body = body([](std::size_t k) { return fmt::format("kernel_{}", k); });
  if (!late_body) return late_body;
  if (!writer.trouble().empty()) return failure("export", writer.trouble());
  prepare += choice_of_specialisation(served, bodies, late + *late_body) + "    return true;\n";
  const auto parts = late_parts(input, served, {host_fact});
  if (!parts) return tl::make_unexpected(parts.error());

  auto values = launcher_values(input);
  values.insert({{"declarations", declarations},
                 {"specialisation_names", *names},
                 {"members", argument_members(input)},
                 {"prepare", prepare},
                 {"accepts", *accepted}});
  values.insert(parts->begin(), parts->end());
  return render(cpu_templates::cpu_launcher_hpp, values);
}

std::string cpu_cmake_kernels(const LauncherInput& input, const std::vector<Specialisation>& served) {
  std::set<std::string> entries;
  for (const auto& launch : input.variant.manifest.launch) entries.insert(launch.kernel);
  const SourceFiles sources = split_source(input.variant.source);
  std::string text = "set(headers";
  for (const HeaderFile& header : sources.headers)
    text += fmt::format(" ${{CMAKE_CURRENT_SOURCE_DIR}}/{}{}", input.folder, header.name);
  text += ")\n";
  for (const auto& specialisation : served)
    text += fmt::format("cultivar_kernel({}kernel.cpp {} {} \"{}\" {})\n", input.folder,
                        short_identity(input.variant), specialisation.suffix, fmt::join(entries, ";"),
                        fmt::join(specialisation.macros, " "));
  return text;
}

Expected<TargetParts> cpu_parts(const ExportOrder& order) {
  const auto& [input, served, architectures, compile] = order;
  if (!architectures.empty())
    throw InputError(
        "--arch is not for runs with target cpu: a cpu kernel is compiled on the machine that runs it");
  TargetParts parts;
  auto header = cpu_launcher_header(input, served);
  if (!header) return tl::make_unexpected(header.error());
  parts.files[input.task.name + ".hpp"] = std::move(*header);
  parts.cmake = cpu_templates::cpu_CMakeLists_txt;
  parts.bench = cpu_templates::cpu_bench_hpp;
  parts.device = cpu_templates::cpu_device_hpp;
  parts.code = cpu_templates::cpu_code_hpp;
  parts.front.parameter = "int cores = 0";
  parts.front.device = "cores";
  parts.front.when_made = "threads start here, for each kernel; keep the object";
  parts.front.needs = "Self-contained; needs C++20 and a POSIX system.";
  parts.front.members = "  int cores() const { return kernel_0_.cores(); }\n";
  parts.values = {
      {"kernel_file", "kernel.cpp"},
      {"flags", std::string(flags_of_exports())},
      {"build_parts", cpu_cmake_kernels(input, served)},
      {"build_sources", ""},
      {"oracle_flags", "-O3 -march=native"},
      {"search_device", "(1)"},
      {"constructed", ""},
      {"dependencies", ""},
      {"libraries", ""},
      {"on_its_device", ""},
      {"fallback_example", ""},
      {"compiler_words", "by the C++ compiler of this machine"},
      {"stream", ""},
      {"gap", "                              "},
      {"needs", ""},
      {"device_checks", ""},
      {"alignment", std::to_string(kTensorAlignment)},
      {"target_files",
       "| `CMakeLists.txt` | the build: one object for each specialization, with tunables as macros |\n"}};
  return parts;
}

}  // namespace cultivar
