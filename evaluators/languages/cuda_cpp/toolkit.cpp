// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cuda_cpp/toolkit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "evaluators/system/process.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// libnvrtc.so.13, .12, ... in a folder, newest first, without variants such as "libnvrtc.alt.so.13".
std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code error;
  const std::string prefix = "libnvrtc.so.";
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const int major = std::atoi(name.c_str() + prefix.size());
    found.emplace_back(name.find('.', prefix.size()) == name.npos ? major : -major, entry.path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<fs::path> paths;
  for (const auto& [major, path] : found)
    if (major > 0) paths.push_back(path);
  return paths;
}

std::vector<fs::path> candidates(const fs::path& program) {
  std::error_code error;
  const fs::path home = program.parent_path();
  std::vector<fs::path> folders{home / "cuda/lib", home / "cuda/lib64", home.parent_path() / "cuda/lib",
                                home.parent_path() / "cuda/lib64"};
#ifdef CULTIVAR_CUDA_LIBRARY_FOLDER
  folders.emplace_back(CULTIVAR_CUDA_LIBRARY_FOLDER);
#endif
  folders.insert(folders.end(), {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/opt/cuda/lib64",
                                 "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"});
  std::vector<fs::path> all;
  for (const fs::path& folder : folders) {
    const auto here = libraries_in(folder);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

// The include folder beside lib, also for targets/x86_64-linux/lib.
std::vector<fs::path> includes_of(const fs::path& library) {
  std::vector<fs::path> homes{library.parent_path().parent_path(), fs::path("/usr/local/cuda"),
                              fs::path("/usr")};
  std::error_code error;
  for (const fs::path& home : homes) {
    const fs::path include = home / "include";
    if (!fs::exists(include / "cuda_fp16.h", error)) continue;
    if (fs::is_directory(include / "cccl", error)) return {include, include / "cccl"};
    return {include};
  }
  return {};
}

Expected<CudaToolkit> probe(const fs::path& program, const fs::path& library) {
  ProcessOptions options;
  options.command = {program.string(), "probe", library.string()};
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child) return tl::make_unexpected(child.error());
  const bool in_time = child->wait_or_kill(deadline_in(20.0));
  if (!in_time || !child->poll()->success())
    return failure("find NVRTC", fmt::format("{}: {}", library.string(),
                                             in_time ? child->captured() : "no response within 20 s"));
  CudaToolkit toolkit;
  std::istringstream words(child->captured());
  words >> toolkit.major >> toolkit.minor;
  for (int architecture = 0; words >> architecture;) toolkit.architectures.push_back(architecture);
  std::error_code error;
  toolkit.library = fs::canonical(library, error);
  if (toolkit.major == 0 || error)
    return failure("find NVRTC", library.string() + ": it does not report its version");
  toolkit.includes = includes_of(toolkit.library);
  return toolkit;
}

// True for <cuda_bf16.h> or "cuda/barrier": a plain relative name found in one of the folders, or the
// variant's own header.
bool is_of(std::string_view rest, const std::vector<fs::path>& folders, const SourceFiles& own) {
  if (rest.empty() || (rest.front() != '<' && rest.front() != '"')) return false;
  const std::size_t end = rest.find(rest.front() == '<' ? '>' : '"', 1);
  if (end == rest.npos) return false;
  const fs::path name(std::string(rest.substr(1, end - 1)));
  if (std::any_of(own.headers.begin(), own.headers.end(), [&](const auto& h) { return h.name == name; }))
    return true;
  if (name.is_absolute() || std::find(name.begin(), name.end(), fs::path("..")) != name.end()) return false;
  std::error_code ignored;
  return std::any_of(folders.begin(), folders.end(),
                     [&](const fs::path& folder) { return fs::is_regular_file(folder / name, ignored); });
}

// Joins lines that end in a backslash, with or without trailing blanks.
std::string spliced(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      const std::size_t end = source.find_first_not_of(" \t\v\f\r", i + 1);
      if (end != source.npos && source[end] == '\n') {
        i = end;
        continue;
      }
    }
    text += source[i];
  }
  return text;
}

}  // namespace

std::string CudaToolkit::version() const {
  return fmt::format("{}.{}", major, minor);
}

Expected<CudaToolkit> find_cuda_toolkit(const fs::path& program, const fs::path& library) {
  std::error_code error;
  if (!fs::exists(program, error))
    return failure("find NVRTC",
                   fmt::format("{} is missing; build all targets of Cultivar", program.string()));
  if (!library.empty()) return probe(program, library);
  std::string trouble;
  for (const fs::path& candidate : candidates(program)) {
    auto toolkit = probe(program, candidate);
    if (toolkit) return toolkit;
    trouble += "\n" + toolkit.error().message;
  }
  return failure(
      "find NVRTC",
      fmt::format("NVRTC was not found; install the CUDA toolkit, 12.4 or later, in /usr/local/cuda (its "
                  "packages cuda-nvrtc and cuda-cudart-dev are enough), or copy its lib and include "
                  "folders into {}{}",
                  (program.parent_path() / "cuda").string(), trouble));
}

std::string include_beyond(std::string_view source, const std::vector<fs::path>& folders) {
  const SourceFiles files = split_source(source);
  const std::string text = spliced(source);
  // Reject other spellings of # and operators that open files in the middle of a line.
  for (const std::string_view odd : {"%:", "?\?=", "__has_include", "__has_embed"})
    if (text.find(odd) != text.npos) return std::string(odd);
  for (std::size_t hash = text.find('#'); hash != text.npos; hash = text.find('#', hash + 1)) {
    const std::size_t begin = text.find_first_not_of(" \t\v\f\r", hash + 1);
    if (begin == text.npos) break;
    const std::string_view rest = std::string_view(text).substr(begin);
    const std::string shown(text.substr(hash, std::min(text.find('\n', hash), hash + 100) - hash));
    if (rest.starts_with("/*")) return shown;  // a comment between # and the name of the directive
    for (const std::string_view word : {"include_next", "include", "import", "embed"}) {
      if (!rest.starts_with(word)) continue;
      const std::string_view behind = rest.substr(word.size());
      const std::size_t name = behind.find_first_not_of(" \t");
      if (word != "include" || name == behind.npos || !is_of(behind.substr(name), folders, files))
        return shown;
      break;
    }
  }
  return {};
}

}  // namespace cultivar
