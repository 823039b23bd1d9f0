// SPDX-License-Identifier: Apache-2.0
// What a contender consists of. Lists contender libraries by name without loading any: those that this build
// made, those that a user put beside them, and known ones that are absent, with the reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// What a contender consists of.
struct ContenderFile {
  std::filesystem::path library;
  // Of the library that hosts Python: "torch", "torch_compile", or the path of a .py file. Otherwise empty.
  std::string program = {};
};

// How the contenders of one worker are prepared.
struct ContenderSettings {
  std::string python = "python3";  // the interpreter whose packages a Python program imports
  double prepare_s = 600.0;        // limit of one prepare
  std::filesystem::path cache = {};
};

struct KnownContender {
  std::string name;
  std::string program;             // of those that Python computes (see ContenderFile)
  std::vector<std::string> tasks;  // empty: known only to the library itself, as is an empty target
  std::string target;
  std::filesystem::path library;  // empty if absent
  std::string absent;             // why it is absent, and the remedy
};

// "'cudnn' is for the task attention_forward on cuda, but this is softmax on cpu"; empty if it can be timed
// there, or if only the library itself knows.
std::string misfit(const KnownContender&, const std::string& task, std::string_view target);

// Libraries are named libcultivar-contender-NAME.so and lie in the folder `lib` beside the programs' folder,
// or in PREFIX/lib/cultivar if the programs are in PREFIX/libexec/cultivar.
std::vector<KnownContender> known_contenders(const std::filesystem::path& programs);

// A file name that ends in .so is a library file, wherever it is; anything else is a name.
bool names_a_library_file(const std::string&);
// The name of such a file in tables: NAME for libcultivar-contender-NAME.so and libNAME.so.
std::string name_of_library(const std::filesystem::path&);

// A file name that ends in .py is a Python program with prepare(); its name in tables is that without .py.
bool names_a_program(const std::string&);

// The library for `text`, a name or a path of either kind (relative to `base`). Throws InputError if there is
// no such file, if the contender is absent (with the reason), or if the name is unknown (with all known
// names). `sources` are names of sources that the caller also accepts, for that list.
ContenderFile find_contender_library(const std::string& text, const std::filesystem::path& base,
                                     const std::filesystem::path& programs,
                                     const std::vector<std::string>& sources);

// For each contender that Cultivar ships, why the build could not make it; empty if it was built. Written by
// CMake.
extern const char* const kClblastAbsent;
extern const char* const kCublasAbsent;
extern const char* const kCudnnAbsent;
extern const char* const kFlashAttention3Absent;

}  // namespace cultivar
