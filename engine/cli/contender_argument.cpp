#include "engine/cli/contender_argument.hpp"

#include <fmt/format.h>

#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> sources_below(const Task& task, const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(task.folder / folder, ignored))
      if (is_source(entry.path())) names.push_back(entry.path().stem().string());
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
  if (!plain && !names_a_library_file(argument)) {
    NamedSource source = find_source(installation, task, argument, folders);
    return {source.label, argument, std::move(source), {}};
  }
  for (const KnownContender& known : known_contenders(installation.programs))
    if (const std::string why = misfit(known, task.name, name_of(target));
        known.name == argument && !why.empty())
      throw InputError("the contender " + why);
  const fs::path library =
      find_contender_library(argument, fs::current_path(), installation.programs, sources);
  const std::string label = names_a_library_file(argument) ? name_of_library(library) : argument;
  return {label, argument, std::nullopt, library};
}

NamedContender find_side(const InstallationPaths& installation, const Task& task, Target target,
                         const std::string& argument) {
  bool library = names_a_library_file(argument);
  for (const KnownContender& known : known_contenders(installation.programs))
    library = library || known.name == argument;
  const std::vector<std::string> folders{"seeds", "contenders"};
  if (library) return find_contender(installation, task, target, argument, folders);
  NamedSource source = find_source(installation, task, argument, folders);
  return {source.label, argument, std::move(source), {}};
}

std::vector<std::string> contender_libraries(const InstallationPaths& installation, const Task& task,
                                             Target target) {
  std::vector<std::string> names;
  for (const KnownContender& known : known_contenders(installation.programs))
    if (!known.library.empty() && misfit(known, task.name, name_of(target)).empty())
      names.push_back(known.name);
  return names;
}

}  // namespace cultivar
