// SPDX-License-Identifier: Apache-2.0
#include "evaluators/target/traits.hpp"

#include "evaluators/target/language.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "evaluators/yaml/nearest_name.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

Target find_target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, [](Target t) { return std::string_view(t->name); });
  return found == targets().end() ? nullptr : *found;
}

std::string known_targets_beside(std::string_view name) {
  std::vector<std::string> names;
  for (const Target target : targets()) {
    names.push_back(target->name);
    if (std::ranges::find(target->also, name) != target->also.end()) name = target->name;
  }
  return did_you_mean(name, names);
}

Target target_named(std::string_view name) {
  if (const Target found = find_target(name)) return found;
  throw InputError(fmt::format("there is no target '{}'{}", name, known_targets_beside(name)));
}

Target target_of(const YamlNode& node) {
  std::string name = node.string();
  if (const Target found = find_target(name)) return found;
  if (name.size() > 60) name = name.substr(0, 57) + "...";
  node.fail(fmt::format("'{}' is not allowed here{}", name, known_targets_beside(name)));
}

Language find_language(std::string_view name) {
  const auto found =
      std::ranges::find(languages(), name, [](Language l) { return std::string_view(l->name); });
  return found == languages().end() ? nullptr : *found;
}

bool compiles_for(Language language, Target target) {
  return std::ranges::find(language->targets, target->name) != language->targets.end();
}

Language usual_language(Target target) {
  return *std::ranges::find_if(languages(), [&](Language l) { return compiles_for(l, target); });
}

Language language_by_extension(const std::filesystem::path& file) {
  const auto found =
      std::ranges::find_if(languages(), [&](Language l) { return file.extension() == l->extension; });
  return found == languages().end() ? nullptr : *found;
}

Language language_of_file(const std::filesystem::path& file) {
  const Language language = language_by_extension(file);
  if (language == nullptr || !language->shares_extension) return language;
  std::ifstream in(file, std::ios::binary);
  std::string head(std::size_t{1} << 16, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head.find(language->comments.manifest_opening()) == head.npos ? nullptr : language;
}

bool is_source_for(Target target, const std::filesystem::path& file) {
  const Language language = language_of_file(file);
  return language != nullptr && compiles_for(language, target);
}

std::size_t find_manifest_opening(std::string_view text) {
  std::size_t first = std::string_view::npos;
  for (const Language language : languages())
    first = std::min(first, text.find(language->comments.manifest_opening()));
  return first;
}

const CommentSyntax& comments_in(std::string_view text) {
  const std::size_t first = find_manifest_opening(text);
  for (const Language language : languages())
    if (first != text.npos && text.substr(first).starts_with(language->comments.manifest_opening()))
      return language->comments;
  return languages().front()->comments;
}

std::string worker_program(Target target) {
  return "cultivar-worker-" + target->name;
}

std::string architecture_of(Target target, const Facts& facts) {
  return target->architectures == nullptr ? std::string() : target->architectures->of(facts);
}

const LaunchKey* launch_key(Target target, std::string_view name) {
  const auto found = std::ranges::find(target->launch_keys, name, &LaunchKey::name);
  return found == target->launch_keys.end() ? nullptr : &*found;
}

}  // namespace cultivar
