// SPDX-License-Identifier: Apache-2.0
// Loads variants from files: one file, or a file and its headers, beside it or of its task.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/variant/source_files.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

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
