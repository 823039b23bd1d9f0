// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/opencl_c/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

bool is_pointer(const Manifest& manifest, const Task& task, const ArgumentSpec& argument) {
  return task.tensor(argument.text) != nullptr ||
         std::ranges::find(manifest.workspace, argument.text, &WorkspaceSpec::name) !=
             manifest.workspace.end();
}

Dtype type_of(const Task& task, const ArgumentSpec& argument) {
  if (argument.type) return *argument.type;
  const auto parameter = std::ranges::find(task.parameters, argument.text, &Parameter::name);
  return parameter == task.parameters.end() ? Dtype::i32 : parameter->type;
}

// "unsigned int" and "uint" are one type; drivers report either.
std::string plain(std::string type) {
  for (const auto& [longer, shorter] : {std::pair("unsigned char", "uchar"),
                                        {"unsigned short", "ushort"},
                                        {"unsigned int", "uint"},
                                        {"unsigned long", "ulong"}})
    if (type == longer) return shorter;
  return type;
}

std::string trouble_of(const Manifest& manifest, const Task& task, const KernelLaunch& launch,
                       const json& kernels) {
  if (!kernels.contains(launch.kernel))
    return fmt::format("the source defines no kernel '{}'", launch.kernel);
  const json& parameters = kernels.at(launch.kernel);
  const bool has_local = !launch.values("local_bytes").empty();
  if (parameters.size() != launch.args.size() + (has_local ? 1 : 0))
    return fmt::format("kernel '{}' has {} parameters, but the manifest gives {} arguments{}", launch.kernel,
                       parameters.size(), launch.args.size(), has_local ? " and local_bytes" : "");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto space = parameters[i].at("space").get<std::string>();
    const std::string type = plain(parameters[i].at("type").get<std::string>());
    if (space.empty()) continue;  // the driver does not tell
    const auto wants = [&](std::string_view what) {
      return fmt::format("parameter {} of kernel '{}' is {} {}, but its argument is {}", i + 1, launch.kernel,
                         space == "private" ? "of the type" : "a __" + space, type, what);
    };
    if (i == launch.args.size()) return space == "local" ? "" : wants("local_bytes, a __local pointer");
    const ArgumentSpec& argument = launch.args[i];
    if (is_pointer(manifest, task, argument)) {
      if (space != "global" && space != "constant")
        return wants(fmt::format("'{}', a __global pointer", argument.text));
      continue;
    }
    const std::string_view wanted = opencl_type(type_of(task, argument));
    if (space != "private" || (!type.empty() && type != wanted))
      return wants(fmt::format("'{}' of the type {}", argument.text, wanted));
  }
  return {};
}

}  // namespace

std::string_view opencl_type(Dtype type) {
  constexpr std::array<std::string_view, dtype_count> types{"double", "float", "half",  "ushort", "long",
                                                            "int",    "short", "char",  "ulong",  "uint",
                                                            "ushort", "uchar", "uchar", "uchar"};
  return types.at(static_cast<std::size_t>(type));
}

std::string parameter_trouble(const Manifest& manifest, const Task& task, const std::string& reported) {
  try {
    const json kernels = json::parse(reported);
    for (const KernelLaunch& launch : manifest.launch)
      if (std::string trouble = trouble_of(manifest, task, launch, kernels); !trouble.empty()) return trouble;
    return {};
  } catch (const json::exception& error) {
    return fmt::format("the OpenCL compiler's report is malformed: {}", error.what());
  }
}

}  // namespace cultivar
