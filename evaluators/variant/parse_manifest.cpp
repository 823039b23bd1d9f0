// Manifest text -> Manifest. Here only form is judged: keys, types, counts. Names are check_manifest's
// business.
#include <fmt/format.h>

#include <algorithm>

#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

Expression expression_of(const YamlNode& node) {
  Expected<Expression> expression = Expression::parse(node.string());
  if (!expression) node.fail(expression.error().message);
  return *std::move(expression);
}

std::vector<Expression> expressions_of(const YamlNode& node, std::size_t least, std::size_t most) {
  std::vector<Expression> result;
  for (const YamlNode& item : node.items()) result.push_back(expression_of(item));
  if (result.size() < least || result.size() > most) {
    if (least == most) node.fail(fmt::format("must have {} entries, not {}", least, result.size()));
    node.fail(fmt::format("must have {} to {} entries, not {}", least, most, result.size()));
  }
  return result;
}

// Keys that the user chooses must be names.
void check_key(const std::string& key, const YamlNode& value) {
  try {
    parse_yaml("\"" + key + "\"", "key").identifier();
  } catch (const YamlError&) {
    value.fail(fmt::format("'{}' is not a name (letters, digits and _, no digit first)", key));
  }
}

TunableValue tunable_value(const YamlNode& node) {
  const std::string text = node.string();
  const char first = text.front();
  if (!node.is_quoted() && ((first >= '0' && first <= '9') || first == '-' || first == '+'))
    return node.integer(-(std::int64_t{1} << 53), std::int64_t{1} << 53);
  return node.identifier();
}

Tunable tunable_of(const std::string& name, const YamlNode& node) {
  Tunable tunable;
  tunable.name = name;
  YamlMap map = node.map();
  const YamlNode values = map.require("values");
  for (const YamlNode& item : values.items()) {
    TunableValue value = tunable_value(item);
    if (!tunable.values.empty() && value.index() != tunable.values.front().index())
      item.fail("numbers and names cannot be mixed (use one kind)");
    if (std::find(tunable.values.begin(), tunable.values.end(), value) != tunable.values.end())
      item.fail(fmt::format("{} is listed twice (remove one)", to_string(value)));
    tunable.values.push_back(std::move(value));
  }
  if (tunable.values.empty()) values.fail("must list at least one value");
  if (tunable.values.size() > 4096) values.fail("lists more than 4096 values");
  const YamlNode fallback = map.require("default");
  tunable.fallback = tunable_value(fallback);
  if (std::find(tunable.values.begin(), tunable.values.end(), tunable.fallback) == tunable.values.end())
    fallback.fail(fmt::format("{} is not among its values (add it to values, or choose one of them)",
                              to_string(tunable.fallback)));
  map.finish();
  return tunable;
}

WorkspaceSpec workspace_of(const std::string& name, const YamlNode& node) {
  WorkspaceSpec workspace;
  workspace.name = name;
  YamlMap map = node.map();
  workspace.bytes = expression_of(map.require("bytes"));
  if (const auto zero = map.optional("zero")) workspace.zero = zero->boolean();
  map.finish();
  return workspace;
}

TensorMapSpec tensor_map_of(const std::string& name, const YamlNode& node) {
  TensorMapSpec spec;
  spec.name = name;
  YamlMap map = node.map();
  spec.tensor = map.require("tensor").identifier();
  spec.sizes = expressions_of(map.require("sizes"), 1, 5);
  const std::size_t rank = spec.sizes.size();
  const auto strides = map.optional("strides");
  if (strides)
    spec.strides = expressions_of(*strides, rank - 1, rank - 1);
  else if (rank > 1)
    node.fail(fmt::format("'strides' is missing (give {}: in elements, from dimension 1 on)", rank - 1));
  spec.box = expressions_of(map.require("box"), rank, rank);
  if (const auto steps = map.optional("element_strides"))
    spec.element_strides = expressions_of(*steps, rank, rank);
  if (const auto v = map.optional("swizzle")) spec.swizzle = v->one_of({"none", "32B", "64B", "128B"});
  if (const auto v = map.optional("interleave")) spec.interleave = v->one_of({"none", "16B", "32B"});
  if (const auto v = map.optional("l2_promotion"))
    spec.l2_promotion = v->one_of({"none", "64B", "128B", "256B"});
  if (const auto v = map.optional("out_of_bounds")) spec.out_of_bounds = v->one_of({"zero", "nan"});
  map.finish();
  return spec;
}

ArgumentSpec argument_of(const YamlNode& node) {
  ArgumentSpec argument;
  if (!node.is_map()) {
    argument.text = expression_of(node).text();
    return argument;
  }
  YamlMap map = node.map();
  argument.text = expression_of(map.require("value")).text();
  const YamlNode type = map.require("type");
  argument.type = dtype_named(
      type.one_of({"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"}));
  map.finish();
  return argument;
}

KernelLaunch launch_of(const YamlNode& node, TargetKind target) {
  KernelLaunch launch;
  YamlMap map = node.map();
  launch.kernel = map.require("kernel").identifier();
  const YamlNode args = map.require("args");
  for (const YamlNode& item : args.items()) launch.args.push_back(argument_of(item));
  if (launch.args.size() > 64) args.fail("has more than 64 entries");
  const auto only = [&](std::string_view key, TargetKind on) -> std::optional<YamlNode> {
    auto value = map.optional(key);
    if (value && target != on)
      value->fail(fmt::format("is for target {}, and this manifest's target is {} (remove it)", name_of(on),
                              name_of(target)));
    return value;
  };
  if (const auto v = only("threads", TargetKind::cpu)) launch.threads = expression_of(*v);
  const auto grid = only("grid", TargetKind::cuda), block = only("block", TargetKind::cuda);
  if (target == TargetKind::cuda) {
    if (!grid || !block) node.fail(fmt::format("'{}' is missing (give [x, y, z])", grid ? "block" : "grid"));
    launch.grid = expressions_of(*grid, 3, 3);
    launch.block = expressions_of(*block, 3, 3);
  }
  if (const auto v = only("cluster", TargetKind::cuda)) launch.cluster = expressions_of(*v, 3, 3);
  if (const auto v = only("shared", TargetKind::cuda)) launch.shared = expression_of(*v);
  if (const auto v = only("cooperative", TargetKind::cuda)) launch.cooperative = v->boolean();
  if (const auto v = only("programmatic_dependent", TargetKind::cuda))
    launch.programmatic_dependent = v->boolean();
  map.finish();
  return launch;
}

Manifest manifest_of(const YamlNode& root) {
  Manifest manifest;
  YamlMap map = root.map();
  manifest.name = map.require("name").identifier();
  manifest.task = map.require("task").identifier();
  manifest.target =
      map.require("target").one_of({"cpu", "cuda"}) == "cpu" ? TargetKind::cpu : TargetKind::cuda;
  if (const auto v = map.optional("about")) manifest.about = v->string();
  if (const auto v = map.optional("requires")) manifest.requires_ = expression_of(*v);
  const auto each = [&](std::string_view key, auto add) {
    const auto node = map.optional(key);
    if (!node) return;
    const auto entries = node->map().entries();
    if (entries.size() > 256) node->fail("has more than 256 entries");
    for (const auto& [name, value] : entries) {
      check_key(name, value);
      add(name, value);
    }
  };
  each("tunables",
       [&](const auto& name, const auto& v) { manifest.tunables.push_back(tunable_of(name, v)); });
  if (const auto v = map.optional("headers"))
    for (const YamlNode& item : v->items()) {
      const std::string name = item.string();
      if (const std::string trouble = header_name_trouble(name); !trouble.empty())
        item.fail(fmt::format("'{}' {}", name, trouble));
      if (std::find(manifest.headers.begin(), manifest.headers.end(), name) != manifest.headers.end())
        item.fail(fmt::format("{} is listed twice (remove one)", name));
      manifest.headers.push_back(name);
      if (manifest.headers.size() > most_headers)
        item.fail(fmt::format("is one of more than {}", most_headers));
    }
  if (const auto v = map.optional("constraints"))
    for (const YamlNode& item : v->items()) manifest.constraints.push_back(expression_of(item));
  if (const auto v = map.optional("specialize"))
    for (const YamlNode& item : v->items()) {
      manifest.specialize.push_back(item.identifier());
      if (std::count(manifest.specialize.begin(), manifest.specialize.end(), manifest.specialize.back()) > 1)
        item.fail("is listed twice (remove one)");
    }
  each("let", [&](const auto& name, const auto& v) { manifest.let.emplace_back(name, expression_of(v)); });
  each("workspace",
       [&](const auto& name, const auto& v) { manifest.workspace.push_back(workspace_of(name, v)); });
  if (const auto v = map.optional("tensor_maps"); v && manifest.target == TargetKind::cpu)
    v->fail("is for target cuda, and this manifest's target is cpu (remove it)");
  each("tensor_maps",
       [&](const auto& name, const auto& v) { manifest.tensor_maps.push_back(tensor_map_of(name, v)); });
  const YamlNode launch = map.require("launch");
  for (const YamlNode& item : launch.items()) manifest.launch.push_back(launch_of(item, manifest.target));
  if (manifest.launch.empty()) launch.fail("must launch at least one kernel");
  if (manifest.launch.size() > 64) launch.fail("launches more than 64 kernels");
  map.finish();
  return manifest;
}

}  // namespace

std::string_view name_of(TargetKind target) {
  return target == TargetKind::cpu ? "cpu" : "cuda";
}

tl::expected<Manifest, ManifestError> parse_manifest(std::string_view source) {
  const auto text = find_manifest(source);
  if (!text) return tl::make_unexpected(text.error());
  try {
    return manifest_of(manifest_tree(*text));
  } catch (const YamlError& error) {
    return tl::make_unexpected(ManifestError{error.line(), error.message()});
  }
}

}  // namespace cultivar
