// How a variant is named on the command line: FILE, a task's own seed or contender by name, or RUN:ID; with
// @NAME=VALUE,NAME=VALUE behind it to set tunables.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/cli/house.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

struct VariantArgument {
  std::string name;  // what stands before the @
  Configuration configuration;
};
VariantArgument split_variant_argument(const std::string&);  // InputError when NAME=VALUE is malformed

struct NamedSource {
  std::string label;   // for tables: the file's stem, or RUN:ID
  std::string origin;  // as typed
  std::string source;
  Configuration configuration;
  std::filesystem::path file;  // empty: of a run
};
// What compilers and checks say of "variant.cu", which every source is called there, in words of the user's
// file.
std::string in_words_of(const NamedSource&, std::string text);
// `folders`: where below the task's folder names are looked up, "seeds" or "contenders".
NamedSource find_source(const House&, const Task&, const std::string& argument,
                        const std::vector<std::string>& folders);

}  // namespace cultivar
