// SPDX-License-Identifier: Apache-2.0
// How a variant is named on the command line: FILE, the name of one of the task's seeds or contenders, or
// RUN:ID; an appended @NAME=VALUE,NAME=VALUE sets tunables.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"
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

// How a contender is named on the command line: like a variant (see variant_argument.hpp), or a library by
// name or path (evaluators/contenders).
struct NamedContender {
  std::string label, origin;
  std::optional<NamedSource> source;
  ContenderFile library;  // set when there is no source
};

// Looks for sources first: a file, a name under one of the task's `folders`, RUN:ID. Throws InputError; for
// an unknown name, the message lists the available contenders and says why known ones are unavailable.
NamedContender find_contender(const InstallationPaths&, const Task&, Target, const std::string& argument,
                              const std::vector<std::string>& folders);

// A variant as find_source accepts it, or a contender library.
NamedContender find_side(const InstallationPaths&, const Task&, Target, const std::string& argument);

// The names of the installed libraries for this task and target, and of those that do not declare a task.
std::vector<std::string> contender_libraries(const InstallationPaths&, const Task&, Target);

// Whether contenders can be used on this machine. Asks each Python interpreter once.
class ContenderTrials {
 public:
  explicit ContenderTrials(const InstallationPaths& installation) : programs_(installation.programs) {}
  // Why this library or Python program cannot be used, with the remedy, as far as loading the library in a
  // process of its own, or asking the interpreter, tells; empty if nothing prevents it.
  std::string trouble(const std::filesystem::path& task_folder, Target, const ContenderFile&,
                      const std::string& python);

 private:
  std::filesystem::path programs_;
  std::map<std::string, Expected<Interpreter>> interpreters_;
};

}  // namespace cultivar
