// Variants from files: one, or one and the headers beside it.
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
    throw InputError(fmt::format("{} is a folder, not a variant's source", file.string()));
  // A pipe may never give anything, a device never end.
  if (const fs::file_status status = fs::status(file, ignored);
      fs::exists(status) && !fs::is_regular_file(status))
    throw InputError(fmt::format("{}: is no ordinary file (write the source into one)", file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw InputError(fmt::format("{}: cannot be read: {} (does it exist, and may you read it?)",
                                 file.string(), std::strerror(errno)));
  std::string text(most_source_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most_source_bytes)
    throw InputError(
        fmt::format("{}: is longer than the {} bytes of a source", file.string(), most_source_bytes));
  return text;
}

// Nothing from anywhere else: a link must lead to a file of the same folder.
std::string read_header(const fs::path& main, const std::string& name) {
  const fs::path folder = main.has_parent_path() ? main.parent_path() : fs::path(".");
  const fs::path file = folder / name;
  std::error_code error;
  if (!fs::exists(file, error))
    throw InputError(fmt::format("{}: the manifest lists the header {}, and there is no {}", main.string(),
                                 name, file.string()));
  const fs::path real = fs::canonical(file, error);
  if (error || real.parent_path() != fs::canonical(folder, error) || !fs::is_regular_file(real, error))
    throw InputError(fmt::format("{}: is not a plain file of {}'s own folder (copy it there)", file.string(),
                                 main.string()));
  std::string text = read_text(file);
  if (const SourceFiles parts = split_source(text); !parts.headers.empty())
    throw InputError(fmt::format("{}:{}: opens another file within a header (remove the line)", file.string(),
                                 parts.headers.front().marker_line));
  return text;
}

[[noreturn]] void refuse(const fs::path& file, std::string_view source, const ManifestError& error) {
  // A file that holds its headers itself is one file, and its lines are counted through.
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
    return main;  // one text already, as `cultivar show --source` prints
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
  // Said here, where lines still have files.
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

Variant load_variant(const fs::path& file, const Task& task, TargetKind where) {
  Variant variant = load_variant(file, task);
  if (const auto fits = check_target(variant, where); !fits) refuse(file, variant.source, fits.error());
  return variant;
}

}  // namespace cultivar
