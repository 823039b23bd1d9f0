// Loads variants from files: one file, or a file and the headers beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

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

// Headers come only from the same folder: a link must point to a file in it.
std::string read_header(const fs::path& main, const std::string& name) {
  const fs::path folder = main.has_parent_path() ? main.parent_path() : fs::path(".");
  const fs::path file = folder / name;
  std::error_code error;
  if (!fs::exists(file, error))
    throw InputError(fmt::format("{}: the manifest lists the header {}, but {} does not exist", main.string(),
                                 name, file.string()));
  const fs::path real = fs::canonical(file, error);
  if (error || real.parent_path() != fs::canonical(folder, error) || !fs::is_regular_file(real, error))
    throw InputError(fmt::format("{}: is not a regular file in the folder of {} (copy it there)",
                                 file.string(), main.string()));
  std::string text = read_text(file);
  if (const SourceFiles parts = split_source(text); !parts.headers.empty())
    throw InputError(fmt::format("{}:{}: a header must not contain a `//// file` line (remove the line)",
                                 file.string(), parts.headers.front().marker_line));
  return text;
}

[[noreturn]] void refuse(const fs::path& file, std::string_view source, const ManifestError& error) {
  // A file that contains its headers counts as one file, with its own line numbers.
  const std::string place =
      split_source(read_text(file)).headers.empty()
          ? (file.parent_path() / place_of(source, file.filename().string(), error.line)).string()
          : fmt::format("{}:{}", file.string(), std::max(1, error.line));
  throw InputError(fmt::format("{}: {}", place, error.message));
}

}  // namespace

std::string read_source(const fs::path& file) {
  std::string main = read_text(file);
  if (!split_source(main).headers.empty())
    return main;  // already one text, as printed by `cultivar show --source`
  const auto manifest = parse_manifest(main);
  if (!manifest) return main;
  for (const auto& [name, line] : quoted_includes(main)) {
    const auto& listed = manifest->headers;
    std::error_code ignored;
    if (std::find(listed.begin(), listed.end(), name) == listed.end() && header_name_trouble(name).empty() &&
        fs::exists(file.parent_path() / name, ignored))
      throw InputError(
          fmt::format("{}:{}: includes {}, which the manifest does not list (add it to "
                      "`headers: [...]`)",
                      file.string(), line, name));
  }
  std::vector<std::string> texts;
  std::vector<HeaderFile> headers;
  texts.reserve(manifest->headers.size());
  for (const std::string& name : manifest->headers) {
    texts.push_back(read_header(file, name));
    headers.push_back({name, texts.back()});
  }
  std::string source = fold_source(main, headers);
  // Checked here, where line numbers still refer to files.
  if (headers.empty()) return source;
  if (const auto again = parse_manifest(source); !again) refuse(file, source, again.error());
  if (const auto agreed = check_headers(*manifest, source); !agreed) refuse(file, source, agreed.error());
  return source;
}

Variant load_variant(const fs::path& file, const Task& task, Configuration configuration) {
  const std::string source = read_source(file);
  auto variant = make_variant(source, task, std::move(configuration));
  if (!variant) refuse(file, source, variant.error());
  return *std::move(variant);
}

Variant load_variant(const fs::path& file, const Task& task, Target where) {
  Variant variant = load_variant(file, task);
  if (const auto fits = check_target(variant, where); !fits) refuse(file, variant.source, fits.error());
  return variant;
}

}  // namespace cultivar
