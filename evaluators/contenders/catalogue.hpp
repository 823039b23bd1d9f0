// Which contender libraries there are, by name, without loading any: those that this build made, those that
// somebody put beside them, and those that are known and absent, with the reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

struct KnownContender {
  std::string name;
  std::string task, target;       // empty: only the library itself knows
  std::filesystem::path library;  // empty: absent
  std::string absent;             // why, and what to do about it
};

// "'cudnn' is for the task attention_forward on cuda, and this is softmax on cpu"; empty: it can be timed
// there, or the library alone knows.
std::string misfit(const KnownContender&, const std::string& task, std::string_view target);

// Libraries are called libcultivar-contender-NAME.so and lie in the folder `lib` beside the programs' folder.
std::vector<KnownContender> known_contenders(const std::filesystem::path& programs);

// A file whose name ends in .so is a library, wherever it is; anything else is a name.
bool names_a_library_file(const std::string&);
// What such a file is called in tables: libcultivar-contender-NAME.so and libNAME.so are NAME.
std::string name_of_library(const std::filesystem::path&);

// The library for `text`, a name or a path (relative to `base`). Throws InputError: no such file; absent, and
// why; or unknown, with all that there is. `sources` are the names that the caller would also have taken.
std::filesystem::path find_contender_library(const std::string& text, const std::filesystem::path& base,
                                             const std::filesystem::path& programs,
                                             const std::vector<std::string>& sources);

}  // namespace cultivar
