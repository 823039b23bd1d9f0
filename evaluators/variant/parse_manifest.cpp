// SPDX-License-Identifier: Apache-2.0
// Parses manifest text into a Manifest. Checks only form (keys, types, counts); check_manifest checks names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/source_files.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

constexpr std::size_t most_entries = 256, most_launches = 64, most_arguments = 64, most_license_bytes = 128;

// The items of a list; counted before they are compared with each other.
std::vector<YamlNode> items_of(const YamlNode& node, std::size_t most) {
  std::vector<YamlNode> items = node.items();
  if (items.size() > most)
    node.fail(fmt::format("has {} entries, but at most {} are allowed", items.size(), most));
  return items;
}

Expression expression_of(const YamlNode& node) {
  Expected<Expression> expression = Expression::parse(node.string());
  if (!expression) node.fail(expression.error().message);
  return *std::move(expression);
}

std::vector<Expression> expressions_of(const YamlNode& node, std::size_t least, std::size_t most) {
  const std::vector<YamlNode> items = node.items();
  if (items.size() < least || items.size() > most) {
    if (least == most) node.fail(fmt::format("must have {} entries, not {}", least, items.size()));
    node.fail(fmt::format("must have {} to {} entries, not {}", least, most, items.size()));
  }
  std::vector<Expression> result;
  for (const YamlNode& item : items) result.push_back(expression_of(item));
  return result;
}

// Keys that the user chooses must be valid names.
void check_key(const std::string& key, const YamlNode& value) {
  try {
    parse_yaml("\"" + key + "\"", "key").identifier();
  } catch (const YamlError&) {
    value.fail(fmt::format("'{}' is not a name (letters, digits and _, no digit first)", key));
  }
}

// Only the characters of an SPDX expression: exports print it in pages and comments.
std::string license_of(const YamlNode& node) {
  std::string text = node.string();
  const bool plain =
      text.size() <= most_license_bytes && std::ranges::all_of(text, [](unsigned char c) {
        return c < 0x80 && (std::isalnum(c) ||
                            std::string_view(" .+-():").find(static_cast<char>(c)) != std::string_view::npos);
      });
  if (!plain)
    node.fail(
        fmt::format("is not an SPDX license expression of at most {} characters (for example Apache-2.0, "
                    "or LicenseRef-Proprietary)",
                    most_license_bytes));
  return text;
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
  for (const YamlNode& item : items_of(values, most_tunable_values)) {
    TunableValue value = tunable_value(item);
    if (!tunable.values.empty() && value.index() != tunable.values.front().index())
      item.fail("numbers and names cannot be mixed (use one kind)");
    if (std::find(tunable.values.begin(), tunable.values.end(), value) != tunable.values.end())
      item.fail(fmt::format("{} is listed twice (remove one)", to_string(value)));
    tunable.values.push_back(std::move(value));
  }
  if (tunable.values.empty()) values.fail("must list at least one value");
  if (tunable.categorical() && tunable.values.size() > most_tunable_names)
    values.fail(fmt::format("lists more than {} names (use numbers)", most_tunable_names));
  const YamlNode fallback = map.require("default");
  tunable.fallback = tunable_value(fallback);
  if (std::find(tunable.values.begin(), tunable.values.end(), tunable.fallback) == tunable.values.end())
    fallback.fail(fmt::format("{} is not one of the values (add it to values, or choose one of them)",
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
  if (const auto type = map.optional("dtype")) {
    spec.dtype = dtype_named(type->string());
    if (!spec.dtype) type->fail(fmt::format("unknown dtype '{}'", type->string()));
  }
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

std::vector<Expression> launch_values(const LaunchKey& key, const YamlNode& node) {
  switch (key.form) {
    case LaunchKey::Form::number:
      return {expression_of(node)};
    case LaunchKey::Form::three:
      return expressions_of(node, 3, 3);
    case LaunchKey::Form::flag:
      break;
  }
  return node.boolean() ? std::vector{Expression::constant(1)} : std::vector<Expression>{};
}

[[noreturn]] void refuse_for(Target target, const YamlNode& node, const std::string& whose) {
  node.fail(fmt::format("is only for target {}, but this manifest's target is {} (remove it)", whose,
                        name_of(target)));
}

std::vector<std::string> names_of(const std::vector<LaunchKey>& keys) {
  std::vector<std::string> names;
  for (const LaunchKey& key : keys) names.push_back(key.name);
  return names;
}

KernelLaunch launch_of(const YamlNode& node, Target target, Language language) {
  KernelLaunch launch;
  YamlMap map = node.map();
  launch.kernel = map.require("kernel").identifier();
  for (const YamlNode& item : items_of(map.require("args"), most_arguments))
    launch.args.push_back(argument_of(item));
  if (const auto when = map.optional("when")) launch.when = expression_of(*when);
  if (const auto repeat = map.optional("repeat")) launch.repeat = expression_of(*repeat);
  std::vector<LaunchKey> keys = language->launch_keys;
  for (const LaunchKey& key : target->launch_keys) {
    const bool derived = std::ranges::find(language->derived_keys, key.name) != language->derived_keys.end();
    if (!derived) keys.push_back(key);
    if (derived && map.has(key.name))
      map.require(key.name).fail(fmt::format(
          "is decided by {} (remove it{})", language->compiler,
          language->launch_keys.empty() ? ""
                                        : fmt::format("; a launch in {} has {}", language->title,
                                                      fmt::join(names_of(language->launch_keys), ", "))));
  }
  for (const LaunchKey& key : keys) {
    const auto value = map.optional(key.name);
    if (!value && key.required)
      node.fail(fmt::format("'{}' is missing (give {})", key.name,
                            key.form == LaunchKey::Form::three ? "[x, y, z]" : "an expression"));
    if (!value) continue;
    if (auto values = launch_values(key, *value); !values.empty())
      launch.keys.emplace(key.name, std::move(values));
  }
  for (const Target other : targets())
    for (const LaunchKey& key : other->launch_keys)
      if (launch_key(target, key.name) == nullptr &&
          std::ranges::find(keys, key.name, &LaunchKey::name) == keys.end() && map.has(key.name))
        refuse_for(target, map.require(key.name), name_of(other));
  map.finish();
  if (language->derive != nullptr) language->derive(launch.keys);
  return launch;
}

// The key `language`, or the usual one of the target. `found`: the comments in which the manifest stands.
Language language_in(YamlMap& map, Target target, const CommentSyntax& found) {
  Language language = usual_language(target);
  const auto key = map.optional("language");
  if (key) {
    std::vector<std::string> names;
    for (const Language each : languages())
      if (compiles_for(each, target)) names.push_back(name_of(each));
    language = find_language(key->string());
    if (language == nullptr || !compiles_for(language, target))
      key->fail(fmt::format("'{}' is not a language for target {}{}", key->string(), name_of(target),
                            did_you_mean(key->string(), names)));
  }
  if (language->comments != found)
    map.require("target").fail(
        fmt::format("a manifest in {} begins with '{}' and ends with '{}'{}", language->title,
                    language->comments.manifest_opening(), language->comments.manifest_closing(),
                    key ? "" : " (or name the language of this file with the key `language`)"));
  return language;
}

Manifest manifest_of(const YamlNode& root, const CommentSyntax& found) {
  Manifest manifest;
  YamlMap map = root.map();
  manifest.name = map.require("name").identifier();
  manifest.task = map.require("task").identifier();
  manifest.target = target_of(map.require("target"));
  manifest.language = language_in(map, manifest.target, found);
  if (const auto v = map.optional("about")) manifest.about = v->prose();
  if (const auto v = map.optional("license")) manifest.license = license_of(*v);
  if (const auto v = map.optional("requires")) manifest.requires_ = expression_of(*v);
  const auto each = [&](std::string_view key, auto add, std::size_t most = most_entries) {
    const auto node = map.optional(key);
    if (!node) return;
    const auto entries = node->map().entries();
    if (entries.size() > most) node->fail(fmt::format("has more than {} entries", most));
    for (const auto& [name, value] : entries) {
      check_key(name, value);
      add(name, value);
    }
  };
  each(
      "tunables", [&](const auto& name, const auto& v) { manifest.tunables.push_back(tunable_of(name, v)); },
      most_tunables);
  if (const auto v = map.optional("headers"); v && !manifest.language->headers)
    v->fail(fmt::format("a source in {} has no headers (remove it)", manifest.language->title));
  else if (v)
    for (const YamlNode& item : v->items()) {
      const std::string name = item.string();
      if (const std::string trouble = header_name_trouble(name); !trouble.empty())
        item.fail(fmt::format("'{}' {}", name, trouble));
      if (std::find(manifest.headers.begin(), manifest.headers.end(), name) != manifest.headers.end())
        item.fail(fmt::format("{} is listed twice (remove one)", name));
      manifest.headers.push_back(name);
      if (manifest.headers.size() > most_headers)
        item.fail(fmt::format("exceeds the limit of {} headers", most_headers));
    }
  if (const auto v = map.optional("constraints"))
    for (const YamlNode& item : items_of(*v, most_entries))
      manifest.constraints.push_back(expression_of(item));
  if (const auto v = map.optional("specialize"))
    for (const YamlNode& item : items_of(*v, most_entries)) {
      manifest.specialize.push_back(item.identifier());
      if (std::count(manifest.specialize.begin(), manifest.specialize.end(), manifest.specialize.back()) > 1)
        item.fail("is listed twice (remove one)");
    }
  each("let", [&](const auto& name, const auto& v) { manifest.let.emplace_back(name, expression_of(v)); });
  each("workspace",
       [&](const auto& name, const auto& v) { manifest.workspace.push_back(workspace_of(name, v)); });
  if (const auto v = map.optional("tensor_maps"); v && manifest.target->plan_tensor_map == nullptr) {
    std::vector<std::string> others;
    for (const Target other : targets())
      if (other->plan_tensor_map != nullptr) others.push_back(name_of(other));
    refuse_for(manifest.target, *v, fmt::format("{}", fmt::join(others, ", ")));
  }
  each("tensor_maps",
       [&](const auto& name, const auto& v) { manifest.tensor_maps.push_back(tensor_map_of(name, v)); });
  const YamlNode launch = map.require("launch");
  for (const YamlNode& item : items_of(launch, most_launches))
    manifest.launch.push_back(launch_of(item, manifest.target, manifest.language));
  if (manifest.launch.empty()) launch.fail("must launch at least one kernel");
  map.finish();
  return manifest;
}

}  // namespace

const std::vector<Expression>& KernelLaunch::values(std::string_view key) const {
  static const std::vector<Expression> none;
  const auto found = keys.find(key);
  return found == keys.end() ? none : found->second;
}

Language language_of(std::string_view source, Language otherwise) {
  const auto manifest = parse_manifest(source);
  return manifest ? manifest->language : otherwise;
}

tl::expected<Manifest, ManifestError> parse_manifest(std::string_view source) {
  const auto text = find_manifest(source);
  if (!text) return tl::make_unexpected(text.error());
  try {
    return manifest_of(manifest_tree(*text), text->comments);
  } catch (const YamlError& error) {
    return tl::make_unexpected(ManifestError{error.line(), error.message()});
  }
}

}  // namespace cultivar
