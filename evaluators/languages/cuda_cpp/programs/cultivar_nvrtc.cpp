// SPDX-License-Identifier: Apache-2.0
// cultivar-nvrtc: the CUDA compiler as a program, started for each compile in a sandbox. Not for manual use.
//   probe LIBRARY                            prints NVRTC's version and the architectures it supports
//   compile LIBRARY SOURCE FOLDER OPTION...  writes FOLDER/variant.{cubin,ptx,log}
// Exit codes: 0 compiled, 1 not compiled (the log says why), 2 bad usage, 3 NVRTC or a file is missing.
#include <fmt/format.h>

#include <ctime>
#include <fstream>

#include "evaluators/languages/cuda_cpp/nvrtc.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/variant/source_files.hpp"

// NVRTC asks for the time to expand __DATE__ and __TIME__, and a kernel may not depend on when it was
// compiled. This program's function comes before that of libc (evaluators/CMakeLists.txt exports it).
extern "C" std::time_t time(std::time_t* where) noexcept {
  if (where != nullptr) *where = 0;
  return 0;
}

namespace {

int missing(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  return 3;
}

int probe(const cultivar::Nvrtc& nvrtc) {
  fmt::print("{} {}", nvrtc.major(), nvrtc.minor());
  for (const int architecture : nvrtc.architectures()) fmt::print(" {}", architecture);
  fmt::print("\n");
  return 0;
}

int compile(const cultivar::Nvrtc& nvrtc, const std::filesystem::path& source,
            const std::filesystem::path& out_folder, const std::vector<std::string>& options) {
  const auto folder = std::filesystem::absolute(out_folder);
  const auto text = cultivar::read_file(source);
  if (!text) return missing(text.error().message);
  const auto files = cultivar::split_source(*text);
  std::vector<cultivar::Nvrtc::Header> headers;
  for (const auto& header : files.headers)
    headers.push_back({std::string(header.name), std::string(header.text)});
  std::filesystem::current_path(
      "/");  // line tables name the working folder, so use the same one everywhere, and not a user's
  const auto result = nvrtc.compile(std::string(files.main), source.filename().string(), headers, options);
  for (const auto& [name, contents] : {std::pair{"variant.log", &result.log},
                                       {"variant.ptx", &result.ptx},
                                       {"variant.cubin", &result.cubin}}) {
    std::ofstream out(folder / name, std::ios::binary);
    if (!out.write(contents->data(), static_cast<std::streamsize>(contents->size())).flush())
      return missing((folder / name).string() + ": cannot be written");
  }
  return result.compiled ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool compiles = words.size() >= 4 && words[0] == "compile";
  if (!compiles && !(words.size() == 2 && words[0] == "probe")) {
    fmt::print(stderr,
               "usage: cultivar-nvrtc probe LIBRARY\n       cultivar-nvrtc compile LIBRARY SOURCE FOLDER "
               "OPTION...\nStarted by cultivar-worker-cuda; not for manual use.\n");
    return 2;
  }
  const auto nvrtc = cultivar::Nvrtc::load(words[1]);
  if (!nvrtc) return missing(nvrtc.error().message);
  return compiles ? compile(*nvrtc, words[2], words[3], {words.begin() + 4, words.end()}) : probe(*nvrtc);
}
