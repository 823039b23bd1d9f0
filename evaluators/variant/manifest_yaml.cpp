// Manifest -> canonical YAML.
#include <fmt/format.h>

#include "evaluators/variant/manifest.hpp"

namespace cultivar {
namespace {

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    result += c;
  }
  return result + "\"";
}

std::string list(const std::vector<Expression>& expressions) {
  std::string text;
  for (const Expression& e : expressions) text += (text.empty() ? "" : ", ") + in_quotes(e.text());
  return "[" + text + "]";
}

std::string value_text(const TunableValue& value) {
  return std::holds_alternative<std::string>(value) ? in_quotes(to_string(value)) : to_string(value);
}

void append(std::string& out, const Tunable& tunable) {
  std::string values;
  for (const TunableValue& value : tunable.values) values += (values.empty() ? "" : ", ") + value_text(value);
  out += fmt::format("  {}: {{values: [{}], default: {}}}\n", tunable.name, values,
                     value_text(tunable.fallback));
}

void append(std::string& out, const TensorMapSpec& map) {
  out += fmt::format("  {}:\n    tensor: {}\n    sizes: {}\n", map.name, map.tensor, list(map.sizes));
  if (!map.strides.empty()) out += fmt::format("    strides: {}\n", list(map.strides));
  out += fmt::format("    box: {}\n", list(map.box));
  if (!map.element_strides.empty())
    out += fmt::format("    element_strides: {}\n", list(map.element_strides));
  out += fmt::format("    swizzle: {}\n    interleave: {}\n    l2_promotion: {}\n    out_of_bounds: {}\n",
                     map.swizzle, map.interleave, map.l2_promotion, map.out_of_bounds);
}

void append(std::string& out, const KernelLaunch& launch) {
  out += fmt::format("  - kernel: {}\n", launch.kernel);
  if (launch.threads) out += fmt::format("    threads: {}\n", in_quotes(launch.threads->text()));
  if (!launch.grid.empty()) out += fmt::format("    grid: {}\n", list(launch.grid));
  if (!launch.block.empty()) out += fmt::format("    block: {}\n", list(launch.block));
  if (!launch.cluster.empty()) out += fmt::format("    cluster: {}\n", list(launch.cluster));
  if (launch.shared) out += fmt::format("    shared: {}\n", in_quotes(launch.shared->text()));
  if (launch.cooperative) out += "    cooperative: true\n";
  if (launch.programmatic_dependent) out += "    programmatic_dependent: true\n";
  std::string args;
  for (const ArgumentSpec& argument : launch.args) {
    args += args.empty() ? "" : ", ";
    args += argument.type
                ? fmt::format("{{value: {}, type: {}}}", in_quotes(argument.text), name_of(*argument.type))
                : in_quotes(argument.text);
  }
  out += fmt::format("    args: [{}]\n", args);
}

}  // namespace

std::string to_yaml(const Manifest& manifest) {
  std::string out =
      fmt::format("name: {}\ntask: {}\ntarget: {}\n", manifest.name, manifest.task, name_of(manifest.target));
  if (!manifest.about.empty()) out += fmt::format("about: {}\n", in_quotes(manifest.about));
  if (manifest.requires_) out += fmt::format("requires: {}\n", in_quotes(manifest.requires_->text()));
  if (!manifest.tunables.empty()) out += "tunables:\n";
  for (const Tunable& tunable : manifest.tunables) append(out, tunable);
  if (!manifest.constraints.empty()) out += fmt::format("constraints: {}\n", list(manifest.constraints));
  if (!manifest.specialize.empty()) {
    std::string names;
    for (const std::string& name : manifest.specialize) names += (names.empty() ? "" : ", ") + name;
    out += fmt::format("specialize: [{}]\n", names);
  }
  if (!manifest.headers.empty()) {
    std::string names;
    for (const std::string& name : manifest.headers) names += (names.empty() ? "" : ", ") + name;
    out += fmt::format("headers: [{}]\n", names);
  }
  if (!manifest.let.empty()) out += "let:\n";
  for (const auto& [name, expression] : manifest.let)
    out += fmt::format("  {}: {}\n", name, in_quotes(expression.text()));
  if (!manifest.workspace.empty()) out += "workspace:\n";
  for (const WorkspaceSpec& w : manifest.workspace)
    out += fmt::format("  {}: {{bytes: {}, zero: {}}}\n", w.name, in_quotes(w.bytes.text()), w.zero);
  if (!manifest.tensor_maps.empty()) out += "tensor_maps:\n";
  for (const TensorMapSpec& map : manifest.tensor_maps) append(out, map);
  out += "launch:\n";
  for (const KernelLaunch& launch : manifest.launch) append(out, launch);
  return out;
}

}  // namespace cultivar
