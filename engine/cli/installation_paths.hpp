// SPDX-License-Identifier: Apache-2.0
// Paths of this installation or source folder: its root folder, tasks, runs and cache.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cultivar {

struct InstallationPaths {
  std::filesystem::path root;      // the folder that holds configs/tasks
  std::filesystem::path programs;  // the folder of the workers
  std::filesystem::path cache;  // compiled kernels and measured ceilings, shared by all runs; $CULTIVAR_CACHE
};

// Found from the path of the running program; throws MissingError when it has no tasks.
InstallationPaths find_installation();

// How the user called this program, for commands to copy: "./cultivar". Set by the launcher.
std::string called_as();

// By a task's name or folder. find_task throws InputError with the nearest name.
std::optional<std::filesystem::path> known_task(const InstallationPaths&, const std::string& name_or_folder);
std::filesystem::path find_task(const InstallationPaths&, const std::string& name_or_folder);
// The names of the sources under one of a task's folders (seeds, contenders), as commands accept them.
std::vector<std::string> sources_in(const std::filesystem::path& folder);
std::vector<std::string> task_names(const InstallationPaths&);

// A configuration relative to the current folder, or else to the root (configs/quickstart.yaml), or by its
// name in the root's configs/ (quickstart). Throws InputError with the nearest name.
std::filesystem::path find_configuration(const InstallationPaths&, const std::string& path);

// A folder with a run.db, that file, or a name under runs/ of the current folder or of the root, or a unique
// prefix of one. `marker`: the file by which a run is known; "run.lock" is there before the record is.
std::filesystem::path find_run(const InstallationPaths&, const std::string& name_or_folder,
                               const char* marker = "run.db");

// RUN and ID of "RUN:ID"; nullopt if the text has another form. ID may be empty; whether the run or the
// individual exists is not checked.
std::optional<std::pair<std::string, std::string>> split_run_and_id(const std::string&);

// A path to type in a shell: relative to the current folder, or absolute if that is shorter; quoted if
// needed.
std::string as_typed(const std::filesystem::path&);

}  // namespace cultivar
