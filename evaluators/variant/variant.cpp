// SPDX-License-Identifier: Apache-2.0
// Identity and lint of a variant.
#include "evaluators/variant/variant.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/system/hash.hpp"
#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

// With its source, its manifest and its source_id there.
tl::expected<Variant, ManifestError> configured(Variant variant, Configuration configuration) {
  const std::vector<Tunable>& tunables = variant.manifest.tunables;
  for (const Tunable& tunable : tunables) configuration.try_emplace(tunable.name, tunable.fallback);
  if (const auto checked = check_configuration(tunables, configuration); !checked)
    return tl::make_unexpected(ManifestError{line_of(variant.source, "tunables"), checked.error().message});
  variant.id = sha256_hex(variant.source_id + "\n" + to_string(tunables, configuration));
  variant.configuration = std::move(configuration);
  return variant;
}

bool names(const Manifest& manifest, const std::string& name) {
  const auto in = [&](const Expression& expression) {
    return std::ranges::binary_search(expression.names(), name);
  };
  if (manifest.requires_ && in(*manifest.requires_)) return true;
  if (std::ranges::count(manifest.specialize, name) > 0) return true;
  if (std::ranges::any_of(manifest.let, [&](const auto& let) { return in(let.second); })) return true;
  return std::ranges::any_of(manifest.launch, [&](const KernelLaunch& launch) {
    return (launch.when && in(*launch.when)) || (launch.repeat && in(*launch.repeat)) ||
           std::ranges::any_of(launch.keys,
                               [&](const auto& key) { return std::ranges::any_of(key.second, in); }) ||
           std::ranges::any_of(launch.args, [&](const ArgumentSpec& argument) {
             const auto value = Expression::parse(argument.text);
             return value && in(*value);
           });
  });
}

// Replaces the default of one tunable; false: it is not written as `default: VALUE` on one line.
bool set_default(std::string& source, const std::string& tunable, const std::string& value) {
  const int line = line_of(source, "tunables." + tunable + ".default");
  std::size_t begin = 0;
  for (int i = 1; i < line && begin != std::string::npos; ++i) begin = source.find('\n', begin) + 1;
  const std::size_t end = std::min(source.find('\n', begin), source.size());
  constexpr std::string_view key = "default:";
  const std::size_t name = source.find(tunable + ":", begin);
  const std::size_t at = source.find(key, name < end ? name : begin);
  if (at == std::string::npos || at >= end) return false;
  const std::size_t first = source.find_first_not_of(' ', at + key.size());
  const std::size_t last = std::min(source.find_first_of(" ,}#\r\n", first), source.size());
  if (first >= end || last > end) return false;
  source.replace(first, last - first, value);
  return true;
}

// An optional parameter that the manifest does not name has its default on all that the variant claims.
void restrict_to_defaults(Manifest& manifest, const Task& task) {
  for (const Parameter& parameter : task.parameters) {
    if (!parameter.optional || names(manifest, parameter.name)) continue;
    std::string text = fmt::format("{} == {}", parameter.name, parameter.fallback->text());
    if (manifest.requires_) text = fmt::format("({}) && {}", manifest.requires_->text(), text);
    manifest.requires_ = Expression::parse(std::move(text)).value();
  }
}

}  // namespace

std::string normalised(std::string_view source) {
  if (source.starts_with(utf8_mark)) source.remove_prefix(utf8_mark.size());
  std::string result;
  result.reserve(source.size() + 1);
  std::size_t at = 0;
  while (at < source.size()) {
    const std::size_t end = std::min(source.find_first_of("\r\n", at), source.size());
    std::string_view line = source.substr(at, end - at);
    const std::size_t last = line.find_last_not_of(" \t\f\v");
    if (marked_file(line))
      while (result.ends_with("\n\n")) result.pop_back();
    result += line.substr(0, last == std::string_view::npos ? 0 : last + 1);
    result += '\n';
    at = end + (source.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  while (result.ends_with("\n\n")) result.pop_back();
  if (result == "\n") result.clear();
  return result;
}

tl::expected<Variant, ManifestError> make_variant(std::string source, const Task& task,
                                                  Configuration configuration) {
  if (source.starts_with(utf8_mark)) source.erase(0, utf8_mark.size());  // NVRTC does not accept it
  auto manifest = parse_manifest(source);
  if (!manifest) return tl::make_unexpected(manifest.error());
  return make_variant(std::move(source), *std::move(manifest), task, std::move(configuration));
}

tl::expected<Variant, ManifestError> make_variant(std::string source, Manifest manifest, const Task& task,
                                                  Configuration configuration) {
  if (source.starts_with(utf8_mark)) source.erase(0, utf8_mark.size());
  if (const auto checked = check_manifest(manifest, task, source); !checked)
    return tl::make_unexpected(checked.error());
  if (const auto checked = check_headers(manifest, source); !checked)
    return tl::make_unexpected(checked.error());
  for (std::size_t i = 0; i < manifest.headers.size(); ++i)
    if (manifest.headers[i] == task.name + ".hpp")
      return tl::make_unexpected(ManifestError{
          line_of(source, fmt::format("headers[{}]", i)),
          fmt::format("{}.hpp is the name of the launcher in exported bundles (choose another name)",
                      task.name)});
  Variant variant;
  variant.source_id = sha256_hex(normalised(source));
  variant.source = std::move(source);
  variant.manifest = std::move(manifest);
  restrict_to_defaults(variant.manifest, task);
  return configured(std::move(variant), std::move(configuration));
}

tl::expected<Variant, ManifestError> with_configuration(const Variant& variant, Configuration configuration) {
  return configured(variant, std::move(configuration));
}

std::string with_own_defaults(const Variant& variant) {
  std::string source = variant.source;
  for (const auto& [name, value] : variant.configuration)
    if (!set_default(source, name, to_string(value))) return variant.source;
  const auto manifest = parse_manifest(source);
  const bool same = manifest && default_configuration(manifest->tunables) == variant.configuration;
  return same ? source : variant.source;
}

std::string with_listed_order(std::string_view source) {
  const auto manifest = parse_manifest(source);
  const SourceFiles files = split_source(source);
  if (!manifest || manifest->headers.size() != files.headers.size()) return std::string(source);
  std::vector<HeaderFile> ordered;
  for (const std::string& name : manifest->headers) {
    const auto found = std::ranges::find(files.headers, name, &HeaderFile::name);
    if (found == files.headers.end()) return std::string(source);
    ordered.push_back(*found);
  }
  if (std::ranges::equal(ordered, files.headers, {}, &HeaderFile::name, &HeaderFile::name))
    return std::string(source);
  return fold_source(files.main, ordered);
}

tl::expected<void, ManifestError> check_target(const Variant& variant, Target where) {
  const Target own = variant.manifest.target;
  if (own == where) return {};
  return tl::make_unexpected(ManifestError{
      line_of(variant.source, "target"), fmt::format("target: the variant is for {0}, but {1} was requested "
                                                     "(use --target {0}, or write the kernel for {1})",
                                                     name_of(own), name_of(where))});
}

}  // namespace cultivar
