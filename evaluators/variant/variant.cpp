// SPDX-License-Identifier: Apache-2.0
// Identity and lint of a variant.
#include "evaluators/variant/variant.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "evaluators/system/hash.hpp"
#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {

namespace fs = std::filesystem;

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

// Loads variants from files: one file, or a file and its headers, beside it or of its task.

namespace {

std::string read_text(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored))
    throw InputError(fmt::format("{} is a folder, not the source file of a variant", file.string()));
  // Reading a pipe may block forever, and reading a device may never end.
  if (const fs::file_status status = fs::status(file, ignored);
      fs::exists(status) && !fs::is_regular_file(status))
    throw InputError(
        fmt::format("{}: is not a regular file (write the source to a regular file)", file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw InputError(
        fmt::format("{}: cannot be read: {} (check that it exists and that you have read permission)",
                    file.string(), std::strerror(errno)));
  std::string text(most_source_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most_source_bytes)
    throw InputError(fmt::format("{}: is longer than the limit of {} bytes for a source", file.string(),
                                 most_source_bytes));
  return text;
}

// The folders in which headers of `main` are looked for: its own, `headers` beside the folder of the task
// that it lies in (the nearest one above it with a task.yaml), then those of the given task.
std::vector<fs::path> header_folders(const fs::path& main, const fs::path& task_folder) {
  std::vector<fs::path> folders{main.parent_path()};
  const auto add = [&](const fs::path& folder) {
    const fs::path normal = fs::absolute(folder).lexically_normal();
    if (std::ranges::none_of(folders, [&](const fs::path& f) {
          return fs::absolute(f / ".").lexically_normal() == normal / "";
        }))
      folders.push_back(normal);
  };
  std::error_code ignored;
  fs::path task = fs::absolute(main).lexically_normal().parent_path();
  while (!fs::exists(task / "task.yaml", ignored) && task.has_relative_path()) task = task.parent_path();
  if (task.has_relative_path()) add(task.parent_path() / "headers");
  if (!task_folder.empty()) {
    add(task_folder / "seeds");
    add(task_folder / ".." / "headers");
  }
  return folders;
}

std::optional<fs::path> find_header(const std::vector<fs::path>& folders, std::string_view name) {
  std::error_code ignored;
  for (const fs::path& folder : folders)
    if (fs::exists(folder / name, ignored)) return folder / name;
  return std::nullopt;
}

// Headers come only from the folders above: a link must point to a file in the same folder.
std::string read_header(const fs::path& main, const std::vector<fs::path>& folders, const std::string& name) {
  const auto found = find_header(folders, name);
  if (!found) {
    std::vector<std::string> searched;
    for (const fs::path& folder : folders) searched.push_back((folder / name).string());
    throw InputError(fmt::format(
        "{}: the manifest lists the header {}, but {}", main.string(), name,
        searched.size() == 1
            ? searched[0] + " does not exist (copy it there)"
            : fmt::format("none of {} exists (copy it to one of these)", fmt::join(searched, ", "))));
  }
  const fs::path& file = *found;
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error || real.parent_path() != fs::canonical(fs::absolute(file).parent_path(), error) ||
      !fs::is_regular_file(real, error))
    throw InputError(fmt::format("{}: is not a regular file in that folder (copy it there)", file.string()));
  std::string text = read_text(file);
  if (const SourceFiles parts = split_source(text); !parts.headers.empty())
    throw InputError(fmt::format("{}:{}: a header must not contain a `//// file` line (remove the line)",
                                 file.string(), parts.headers.front().marker_line));
  return text;
}

[[noreturn]] void refuse(const fs::path& file, const fs::path& task_folder, std::string_view source,
                         const ManifestError& error) {
  // A file that contains its headers counts as one file, with its own line numbers.
  std::string place = fmt::format("{}:{}", file.string(), std::max(1, error.line));
  if (split_source(read_text(file)).headers.empty()) {
    place = place_of(source, file.filename().string(), error.line);
    const auto header = find_header(header_folders(file, task_folder), place.substr(0, place.rfind(':')));
    place = ((header ? *header : file).parent_path() / place).string();
  }
  throw InputError(fmt::format("{}: {}", place, error.message));
}

}  // namespace

std::string read_source(const fs::path& file, const fs::path& task_folder) {
  std::string main = read_text(file);
  if (!split_source(main).headers.empty())
    return main;  // already one text, as printed by `cultivar show --source`
  const auto manifest = parse_manifest(main);
  if (!manifest) return main;
  const std::vector<fs::path> folders = header_folders(file, task_folder);
  for (const auto& [name, line] : quoted_includes(main)) {
    const auto& listed = manifest->headers;
    if (std::find(listed.begin(), listed.end(), name) == listed.end() && header_name_trouble(name).empty() &&
        find_header(folders, name))
      throw InputError(
          fmt::format("{}:{}: includes {}, which the manifest does not list (add it to "
                      "`headers: [...]`)",
                      file.string(), line, name));
  }
  std::vector<std::string> texts;
  std::vector<HeaderFile> headers;
  texts.reserve(manifest->headers.size());
  for (const std::string& name : manifest->headers) {
    texts.push_back(read_header(file, folders, name));
    headers.push_back({name, texts.back()});
  }
  std::string source = fold_source(main, headers);
  // Checked here, where line numbers still refer to files.
  if (headers.empty()) return source;
  if (const auto again = parse_manifest(source); !again) refuse(file, task_folder, source, again.error());
  if (const auto agreed = check_headers(*manifest, source); !agreed)
    refuse(file, task_folder, source, agreed.error());
  return source;
}

std::string task_name_in(const fs::path& file) {
  const std::string main = read_text(file);
  const auto manifest = parse_manifest(main);
  if (!manifest) refuse(file, {}, main, manifest.error());
  return manifest->task;
}

Variant load_variant(const fs::path& file, const Task& task, Configuration configuration) {
  const std::string source = read_source(file, task.folder);
  auto variant = make_variant(source, task, std::move(configuration));
  if (!variant) refuse(file, task.folder, source, variant.error());
  // Others would take it for what its name says.
  const Language own = variant->manifest.language, by_name = language_by_extension(file);
  if (by_name != nullptr && by_name != own)
    refuse(file, task.folder, source,
           {line_of(source, "target"),
            fmt::format("the manifest is of {}, but a file *{} is {} (rename it to *{}{})", own->title,
                        by_name->extension, by_name->title, own->extension,
                        compiles_for(by_name, variant->manifest.target)
                            ? fmt::format(", or write `language: {}`", name_of(by_name))
                            : "")});
  return *std::move(variant);
}

Variant load_variant(const fs::path& file, const Task& task, Target where) {
  Variant variant = load_variant(file, task);
  if (const auto fits = check_target(variant, where); !fits)
    refuse(file, task.folder, variant.source, fits.error());
  return variant;
}

}  // namespace cultivar
