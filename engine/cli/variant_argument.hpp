// SPDX-License-Identifier: Apache-2.0
// How a variant is named on the command line: FILE, the name of one of the task's seeds or contenders, or
// RUN:ID; an appended @NAME=VALUE,NAME=VALUE sets tunables.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

struct VariantArgument {
  std::string name;  // the text before the @
  Configuration configuration;
};
VariantArgument split_variant_argument(const std::string&);  // InputError when NAME=VALUE is malformed

struct NamedSource {
  std::string label;   // for tables: the file's stem, or RUN:ID
  std::string origin;  // as typed
  std::string source;
  Configuration configuration;
  std::filesystem::path file;  // empty when it comes from a run
};
// Replaces "variant.cu", the name that compilers and checks use for every source, by the name of the user's
// file.
std::string in_words_of(const NamedSource&, std::string text);
// `folders`: the subfolders of the task's folder to look in, "seeds" or "contenders". Of several files there
// with one name, those for the target are meant; InputError if that leaves several.
NamedSource find_source(const InstallationPaths&, const Task&, const std::string& argument,
                        const std::vector<std::string>& folders, Target = nullptr);

}  // namespace cultivar
