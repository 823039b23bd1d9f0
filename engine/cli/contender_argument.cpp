// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/contender_argument.hpp"

#include <fmt/format.h>

#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/worker/contender_trial.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> sources_below(const Task& task, const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(task.folder / folder, ignored))
      if (language_of_file(entry.path()) != nullptr) names.push_back(entry.path().stem().string());
  return names;
}

}  // namespace

NamedContender find_contender(const InstallationPaths& installation, const Task& task, Target target,
                              const std::string& argument, const std::vector<std::string>& folders) {
  const VariantArgument split = split_variant_argument(argument);
  const std::vector<std::string> sources = sources_below(task, folders);
  std::error_code ignored;
  const bool plain = split.configuration.empty() && split.name.find(':') == std::string::npos &&
                     !fs::is_regular_file(split.name, ignored) &&
                     !fs::is_regular_file(task.folder / split.name, ignored) &&
                     !fs::is_regular_file(installation.root / split.name, ignored) &&
                     std::find(sources.begin(), sources.end(), split.name) == sources.end();
  if (!plain && !names_a_library_file(argument) && !names_a_program(argument)) {
    NamedSource source = find_source(installation, task, argument, folders, target);
    return {source.label, argument, std::move(source), {}};
  }
  const fs::path program = task.folder / "contenders" / (argument + ".py");
  if (fs::is_regular_file(program, ignored))
    return {argument, argument, std::nullopt,
            find_contender_library(program.string(), "/", installation.programs, {})};
  for (const KnownContender& known : known_contenders(installation.programs))
    if (const std::string why = misfit(known, task.name, name_of(target));
        known.name == argument && !why.empty())
      throw InputError("the contender " + why);
  const ContenderFile file =
      find_contender_library(argument, fs::current_path(), installation.programs, sources);
  if (!file.program.empty() && !names_a_program(argument) && !fs::exists(task.folder / "pytorch.py", ignored))
    throw InputError(
        fmt::format("the contender {} computes with compute() of the task's pytorch.py, but there is no {}; "
                    "write it (configs/tasks/README.md)",
                    argument, (task.folder / "pytorch.py").string()));
  const bool path = names_a_library_file(argument) || names_a_program(argument);
  return {path ? name_of_library(argument) : argument, argument, std::nullopt, file};
}

NamedContender find_side(const InstallationPaths& installation, const Task& task, Target target,
                         const std::string& argument) {
  std::error_code ignored;
  bool library = names_a_library_file(argument) || names_a_program(argument) ||
                 fs::is_regular_file(task.folder / "contenders" / (argument + ".py"), ignored);
  for (const KnownContender& known : known_contenders(installation.programs))
    library = library || known.name == argument;
  const std::vector<std::string> folders{"seeds", "contenders"};
  if (library) return find_contender(installation, task, target, argument, folders);
  NamedSource source = find_source(installation, task, argument, folders, target);
  return {source.label, argument, std::move(source), {}};
}

std::vector<std::string> contender_libraries(const InstallationPaths& installation, const Task& task,
                                             Target target) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const KnownContender& known : known_contenders(installation.programs))
    if (!known.library.empty() && misfit(known, task.name, name_of(target)).empty() &&
        (known.program.empty() || fs::exists(task.folder / "pytorch.py", ignored)))
      names.push_back(known.name);
  for (const auto& entry : fs::directory_iterator(task.folder / "contenders", ignored))
    if (names_a_program(entry.path().string())) names.push_back(entry.path().stem().string());
  return names;
}

std::string ContenderTrials::trouble(const fs::path& task_folder, Target target, const ContenderFile& file,
                                     const std::string& python) {
  if (file.program.empty()) {
    const auto version = try_contender(programs_, file.library, task_folder, target);
    return version ? "" : version.error().message;
  }
  auto known = interpreters_.find(python);
  if (known == interpreters_.end())
    known = interpreters_.emplace(python, find_interpreter(python, PythonNeeds::library)).first;
  const Expected<Interpreter>& found = known->second;
  if (!found) return found.error().message;
  const fs::path program =
      names_a_program(file.program) ? fs::path(file.program) : task_folder / "pytorch.py";
  if (std::string wrong = syntax_error(*found, program); !wrong.empty()) return wrong;
  if (!found->packages.empty()) return {};  // which every program is given its tensors by
  return fmt::format(
      "{} (Python {}) has no PyTorch: install it there, or name another interpreter "
      "(evaluation.python, --python)",
      found->executable, found->version);
}

}  // namespace cultivar
