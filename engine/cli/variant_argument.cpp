// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/variant_argument.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>

#include "engine/cli/record_views.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

namespace fs = std::filesystem;

VariantArgument split_variant_argument(const std::string& text) {
  VariantArgument result;
  const std::size_t at = text.rfind('@');
  result.name = text.substr(0, at);
  if (at == std::string::npos) return result;
  std::istringstream pairs(text.substr(at + 1));
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == pair.size())
      throw InputError(fmt::format("'{}' in '{}' is not NAME=VALUE", pair, text));
    const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
    if (result.configuration.contains(name))
      throw InputError(fmt::format("'{}' is set twice in '{}'", name, text));
    std::int64_t number = 0;
    const auto [end, trouble] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (trouble == std::errc() && end == value.data() + value.size())
      result.configuration[name] = number;
    else
      result.configuration[name] = value;
  }
  return result;
}

NamedSource find_source(const InstallationPaths& installation, const Task& task, const std::string& argument,
                        const std::vector<std::string>& folders, Target target) {
  const VariantArgument split = split_variant_argument(argument);
  NamedSource found{fs::path(split.name).stem().string(), argument, "", split.configuration, {}};
  std::error_code ignored;
  for (const fs::path& file :
       {fs::path(split.name), task.folder / split.name, installation.root / split.name})
    if (fs::exists(file, ignored) && !fs::is_directory(file, ignored)) {
      found.source = read_source(file, task.folder);
      found.file = file;
      return found;
    }
  std::vector<std::string> known;
  std::vector<fs::path> files;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(task.folder / folder, ignored)) {
      if (language_of_file(entry.path()) == nullptr) continue;
      known.push_back(entry.path().stem().string());
      if (known.back() == split.name) files.push_back(entry.path());
    }
  const auto fits = [&](const fs::path& file) { return target != nullptr && is_source_for(target, file); };
  if (std::ranges::any_of(files, fits)) std::erase_if(files, std::not_fn(fits));
  if (files.size() > 1) {
    std::ranges::sort(files);
    std::string all;
    for (const fs::path& file : files) all += (all.empty() ? "" : ", ") + file.string();
    throw InputError(
        fmt::format("several files are called '{}': give the path of one ({})", split.name, all));
  }
  if (!files.empty()) {
    found.source = read_source(files.front(), task.folder);
    found.file = files.front();
    return found;
  }
  if (const auto of_run = split_run_and_id(split.name)) {
    const Record record = open_run(installation, of_run->first);
    const IndividualId id = find_individual(record, of_run->second);
    found.label = fmt::format("#{}", id);
    found.source = record.source(id);
    Configuration configuration = record.individual(id).value().individual.configuration;
    for (const auto& [name, value] : split.configuration) configuration[name] = value;
    found.configuration = configuration;
    return found;
  }
  for (const fs::path& folder :
       {fs::path(split.name), task.folder / split.name, installation.root / split.name})
    if (!split.name.empty() && fs::is_directory(folder, ignored))
      throw InputError(fmt::format("{} is a folder; name a file in it, or a seed of the task{}",
                                   folder.string(), did_you_mean("", known)));
  throw InputError(fmt::format("there is no file '{}'{}; to name an individual of a run, write RUN:ID",
                               split.name, did_you_mean(split.name, known)));
}

std::string in_words_of(const NamedSource& source, std::string text) {
  const std::string there = "variant" + source.file.extension().string(),
                    here = source.file.filename().string();
  if (here.empty()) return text;
  for (std::size_t at = 0; (at = text.find(there, at)) != std::string::npos; at += here.size())
    text.replace(at, there.size(), here);
  return text;
}

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
