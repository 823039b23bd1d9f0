// SPDX-License-Identifier: Apache-2.0
#include "engine/export/front_launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "embedded/launcher.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/render.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {
namespace {

const Parameter* parameter_named(const Task& task, const std::string& name) {
  for (const Parameter& parameter : task.parameters)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

// Of a parameter that is no flag only whether it is set.
bool only_whether_set(const Task& task, const std::string& name) {
  const Parameter* const parameter = parameter_named(task, name);
  return parameter != nullptr && !parameter->flag;
}

std::string entry_row(const Task& task, const Dispatch& dispatch, const DispatchEntry& entry) {
  const Bindings values = task.bindings(entry.workload);
  std::vector<std::string> kinds, sizes;
  for (const std::string& name : dispatch.kinds)
    kinds.push_back(literal(only_whether_set(task, name) ? values.at(name) != 0.0 : values.at(name)));
  for (const std::string& name : dispatch.sizes)
    sizes.push_back(literal(std::log(std::max(1.0, values.at(name)))));
  kinds.emplace_back("0.0");
  sizes.emplace_back("0.0");
  return fmt::format("      {{{}, {{{}}}, {{{}}}}},  // {}\n", entry.kernel, fmt::join(kinds, ", "),
                     fmt::join(sizes, ", "), entry.workload.name);
}

// What differs between the targets.
struct FrontWords {
  std::string device, when_made, stream, more, parameters, given, driver, prepared, needs, fallback;
};

FrontWords words_of(Target target, const std::string& first_space) {
  if (target->on_host)
    return {"cores",
            "threads start here, for each kernel; keep the object",
            "",
            "  int cores() const { return kernel_0_.cores(); }\n",
            "",
            "",
            "",
            "void",
            "Self-contained; needs C++20 and a POSIX system.",
            ""};
  return {"device",
          "uses this thread's CUDA context, or device 0's primary context",
          ", stream",
          "",
          ", CUstream_st* stream = nullptr, void* workspace = nullptr",
          ", stream, workspace",
          fmt::format("namespace driver = {}::driver;\n", first_space),
          "std::size_t",
          "Needs C++20, Linux and NVIDIA's driver.",
          ", CUstream_st*, void*"};
}

}  // namespace

Dispatch dispatch_of(const Task& task, const std::vector<FrontKernel>& kernels) {
  std::set<std::string> specialised;
  for (const FrontKernel& kernel : kernels)
    for (const std::string& name : kernel.input.variant.manifest.specialize) specialised.insert(name);
  Dispatch dispatch;
  for (const Dimension& dimension : task.dimensions) {
    if (specialised.contains(dimension.name)) dispatch.kinds.push_back(dimension.name);
    dispatch.sizes.push_back(dimension.name);
  }
  for (const Parameter& parameter : task.parameters) {
    dispatch.kinds.push_back(parameter.name);
    if (!parameter.flag && !is_floating(parameter.type)) dispatch.sizes.push_back(parameter.name);
  }
  return dispatch;
}

std::string front_identity(const std::vector<FrontKernel>& kernels,
                           const std::vector<DispatchEntry>& entries) {
  std::string text;
  for (const FrontKernel& kernel : kernels) text += kernel.name + ' ' + kernel.input.variant.id + '\n';
  for (const DispatchEntry& entry : entries)
    text += fmt::format("{} {}\n", entry.workload.name, entry.kernel);
  return sha256_hex(text).substr(0, 12);
}

Expected<std::string> front_launcher_header(const LauncherInput& front,
                                            const std::vector<FrontKernel>& kernels,
                                            const std::vector<DispatchEntry>& entries) {
  const Task& task = front.task;
  const std::string type = pascal_case(task.name);
  const auto space = [&](const FrontKernel& kernel) {
    return fmt::format("cultivar_export::{}_{}", task.name, short_identity(kernel.input.variant));
  };
  const auto bound = task_bindings(front);
  if (!bound) return bound;
  const Target target = front.variant.manifest.target;
  const FrontWords words = words_of(target, space(kernels.front()));
  const Dispatch dispatch = dispatch_of(task, kernels);

  std::string includes, members, calls, preparations, acceptances, specialisations, copies, rows;
  std::string uses, requirements, wanted, possibilities;
  std::vector<std::string> all_calls;
  std::vector<std::string> initialisers, names, kinds, sizes;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::string arguments = fmt::format("as<{}::{}Arguments>(arguments)", space(kernels[k]), type);
    includes += fmt::format("#include \"{}/{}/{}.hpp\"\n", kKernelsFolder, kernels[k].name, task.name);
    members += fmt::format("  {}::{} kernel_{}_;\n", space(kernels[k]), type, k);
    calls += fmt::format("      case {0}: return kernel_{0}_({1}{2});\n", k, arguments, words.given);
    preparations += fmt::format("      case {0}: return kernel_{0}_.prepare({1});\n", k, arguments);
    acceptances += fmt::format("      case {0}: return kernel_{0}_.accepts({1});\n", k, arguments);
    specialisations +=
        fmt::format("      case {0}: return kernel_{0}_.specialisation_for({1});\n", k, arguments);
    uses += fmt::format("    kernel_{}_.use(supplier);\n", k);
    all_calls.push_back(fmt::format("kernel_{}_.calls()", k));
    requirements += fmt::format("      case {0}: return kernel_{0}_.require({1});\n", k, arguments);
    wanted += fmt::format("      case {0}: return kernel_{0}_.wanted({1});\n", k, arguments);
    possibilities += fmt::format("      case {0}: return kernel_{0}_.could_accept({1});\n", k, arguments);
    initialisers.push_back(fmt::format("kernel_{}_({})", k, words.device));
    names.push_back('"' + kernels[k].name + '"');
  }
  const auto copied = [&](const auto& all) {
    for (const auto& each : all) copies += fmt::format("    to.{0} = arguments.{0};\n", each.name);
  };
  copied(task.dimensions);
  copied(task.parameters);
  copied(task.tensors);
  for (const DispatchEntry& entry : entries) rows += entry_row(task, dispatch, entry);
  for (const std::string& name : dispatch.kinds)
    kinds.push_back(only_whether_set(task, name) ? fmt::format("double({} != 0.0),", variable(name))
                                                 : variable(name) + ",");
  for (const std::string& name : dispatch.sizes) sizes.push_back(fmt::format("log_of({}),", variable(name)));

  auto values = launcher_values(front);
  values["id"] = front_identity(kernels, entries);
  values.insert({{"kernel_count", std::to_string(kernels.size())},
                 {"kernels_folder", std::string(kKernelsFolder)},
                 {"needs_of_header", words.needs},
                 {"when_made", words.when_made},
                 {"stream", words.stream},
                 {"includes", includes},
                 {"driver", words.driver},
                 {"members", argument_members(front)},
                 {"device", words.device},
                 {"initialisers", fmt::format("{}", fmt::join(initialisers, ", "))},
                 {"more", words.more},
                 {"more_parameters", words.parameters},
                 {"calls", calls},
                 {"prepared", words.prepared},
                 {"preparations", preparations},
                 {"names", fmt::format("{}", fmt::join(names, ", "))},
                 {"kind_count", std::to_string(dispatch.kinds.size())},
                 {"size_count", std::to_string(dispatch.sizes.size())},
                 {"kind_names", fmt::format("{}", fmt::join(dispatch.kinds, ", "))},
                 {"size_names", fmt::format("{}", fmt::join(dispatch.sizes, ", "))},
                 {"entries", rows},
                 {"bindings", *bound},
                 {"kind_values", fmt::format("{}", fmt::join(kinds, " "))},
                 {"size_values", fmt::format("{}", fmt::join(sizes, " "))},
                 {"acceptances", acceptances},
                 {"specialisation_names", specialisations},
                 {"uses", uses},
                 {"all_calls", fmt::format("{}", fmt::join(all_calls, ", "))},
                 {"requirements", requirements},
                 {"wanted", wanted},
                 {"possibilities", possibilities},
                 {"fallback_parameters", words.fallback},
                 {"given", words.given},
                 {"copies", copies},
                 {"kernels", members}});
  return render(launcher::front_launcher_hpp, values);
}

}  // namespace cultivar
