// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/installation_paths.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "evaluators/system/error.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/target/language.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> folders_with(const fs::path& parent, const char* file) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (fs::exists(entry.path() / file, ignored)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool holds_tasks(const fs::path& root) {
  std::error_code ignored;
  return fs::is_directory(root / "configs" / "tasks", ignored);
}

std::optional<fs::path> given_cache() {
  if (const char* given = std::getenv("CULTIVAR_CACHE"); given && *given) return fs::absolute(given);
  return std::nullopt;
}

fs::path users_cache() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return fs::path(xdg) / "cultivar";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache" / "cultivar";
  return fs::temp_directory_path() / fmt::format("cultivar-{}", ::getuid());
}

// In the source folder, so that deleting it leaves nothing behind; in the home folder when the source folder
// is not writable.
fs::path cache_of_source(const fs::path& root) {
  return ::access(root.c_str(), W_OK) == 0 ? root / ".cache" : users_cache();
}

std::string without_database(const fs::path& folder) {
  std::error_code ignored;
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints", ignored))
    if (entry.path().extension() == ".db" && entry.path() > newest) newest = entry.path();
  if (newest.empty()) {
    std::string words = fmt::format("{} is not a run: it holds no run.db", folder.string());
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (fs::exists(entry.path() / "run.db", ignored))
        return words + fmt::format("; it holds runs, such as {}: cultivar runs {} lists them",
                                   shell_word(entry.path().string()), shell_word(folder.string()));
    return words;
  }
  return fmt::format(
      "{0} has no run.db, but it has checkpoints. Copy the newest one, then resume:\n"
      "  cp {1} {0}/run.db",
      shell_word(folder.string()), shell_word(newest.string()));
}

std::string folder_not_configuration(const fs::path& folder) {
  std::error_code ignored;
  const std::string words = fmt::format("'{}' is a folder, not a configuration", folder.string());
  if (fs::exists(folder / "run.db", ignored))
    return fmt::format("{}; it holds a run, which this continues: {} resume {}", words, called_as(),
                       shell_word(folder.string()));
  const fs::path search = folder / "search.yaml";
  return fmt::format("{}; give a YAML file, for example {}", words,
                     fs::exists(search, ignored) ? shell_word(search.lexically_normal().string())
                                                 : "configs/quickstart.yaml");
}

}  // namespace

std::string called_as() {
  const char* told = std::getenv("CULTIVAR_COMMAND");
  return told != nullptr && *told != '\0' ? told : "cultivar";
}

InstallationPaths find_installation() {
  std::error_code trouble;
  const fs::path program = fs::read_symlink("/proc/self/exe", trouble);
  if (trouble) throw MissingError("cannot read /proc/self/exe: is /proc mounted?");
  // An installation has PREFIX/bin, PREFIX/libexec/cultivar and PREFIX/share/cultivar, and writes to none of
  // them.
  const fs::path prefix = program.parent_path().parent_path(), data = prefix / "share" / "cultivar";
  const std::optional<fs::path> given = given_cache();
  if (holds_tasks(data)) return {data, prefix / "libexec" / "cultivar", given ? *given : users_cache()};
  for (fs::path folder = program.parent_path(); folder != folder.root_path(); folder = folder.parent_path())
    if (holds_tasks(folder)) return {folder, program.parent_path(), given ? *given : cache_of_source(folder)};
  throw MissingError(fmt::format(
      "{} finds no tasks, neither in {}/configs/tasks (an installation) nor in configs/tasks of a "
      "parent folder (a source folder); install Cultivar again, or run the script `cultivar` of the "
      "source folder; a symbolic link to it works too",
      program.string(), data.string()));
}

std::vector<std::string> task_names(const InstallationPaths& installation) {
  return folders_with(installation.root / "configs" / "tasks", "task.yaml");
}

std::vector<std::string> sources_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (language_of_file(entry.path()) != nullptr)
      names.push_back(fs::relative(entry.path(), folder.parent_path()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<fs::path> known_task(const InstallationPaths& installation, const std::string& name) {
  std::error_code ignored;
  const bool path = name.find('/') != std::string::npos;
  for (const fs::path& folder :
       {path ? fs::path(name) : installation.root / "configs" / "tasks" / name, fs::path(name)})
    if (fs::exists(folder / "task.yaml", ignored)) return fs::canonical(folder);
  return std::nullopt;
}

fs::path find_task(const InstallationPaths& installation, const std::string& name) {
  if (const auto folder = known_task(installation, name)) return *folder;
  throw InputError(fmt::format("there is no task '{}'{}; name a task, or a folder with a task.yaml", name,
                               did_you_mean(name, task_names(installation))));
}

fs::path find_configuration(const InstallationPaths& installation, const std::string& path) {
  std::error_code ignored;
  for (const fs::path& file :
       {fs::path(path), installation.root / path, installation.root / "configs" / (path + ".yaml")})
    if (fs::is_regular_file(file, ignored)) return file;
  if (fs::is_directory(path, ignored)) throw InputError(folder_not_configuration(path));
  if (fs::exists(path, ignored))
    throw InputError(fmt::format("{} is not a regular file; name a configuration", path));
  const fs::path parent = fs::path(path).parent_path();
  std::vector<std::string> beside;
  if (parent.empty())
    for (const auto& entry : fs::directory_iterator(installation.root / "configs", ignored))
      if (entry.path().extension() == ".yaml") beside.push_back(entry.path().stem().string());
  for (const fs::path& folder : {parent.empty() ? fs::path(".") : parent, installation.root / parent}) {
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.is_regular_file(ignored)) beside.push_back((parent / entry.path().filename()).string());
  }
  const std::string near = nearest_name(path, beside);
  throw InputError(fmt::format("there is no configuration '{}'{}", path,
                               near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
}

std::optional<std::pair<std::string, std::string>> split_run_and_id(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  return std::pair(text.substr(0, colon), text.substr(colon + 1));
}

fs::path find_run(const InstallationPaths& installation, const std::string& name, const char* marker) {
  std::error_code ignored;
  const fs::path bases[] = {fs::path("runs"), installation.root / "runs"};
  const auto folder_of = [&](const fs::path& run) -> std::optional<fs::path> {
    for (const fs::path& folder : {run, bases[0] / run, bases[1] / run, installation.root / run})
      if (fs::exists(folder / marker, ignored)) return fs::canonical(folder);
    if (run.filename() == marker && fs::exists(run, ignored)) return fs::canonical(run).parent_path();
    return std::nullopt;
  };
  if (const auto folder = folder_of(name)) return *folder;
  if (const auto kernel = split_run_and_id(name); kernel && folder_of(kernel->first))
    throw InputError(
        fmt::format("'{}' names a kernel, but this argument names a run; give the kernel separately: "
                    "show {} {}, export {} --id {}",
                    name, kernel->first, kernel->second, kernel->first, kernel->second));
  std::vector<std::string> known, begun;
  for (const fs::path& base : bases) {
    for (const std::string& run : folders_with(base, marker)) {
      if (std::find(known.begin(), known.end(), run) == known.end()) known.push_back(run);
      if (run.starts_with(name)) begun.push_back((base / run).string());
    }
  }
  if (begun.size() == 1) return fs::canonical(begun.front());
  if (fs::is_directory(name, ignored)) throw InputError(without_database(name));
  throw InputError(fmt::format(
      "there is no run '{}'{}", name,
      known.empty() ? "; start one with: cultivar run configs/quickstart.yaml" : did_you_mean(name, known)));
}

std::string as_typed(const fs::path& path) {
  const std::string near = fs::proximate(path).string(), far = fs::absolute(path).string();
  return shell_word(far.size() < near.size() ? far : near);
}

}  // namespace cultivar
