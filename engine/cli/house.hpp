// Where things are: the house that this program was built in, its tasks, runs and cache.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cultivar {

struct House {
  std::filesystem::path root;      // the folder that holds configs/tasks
  std::filesystem::path programs;  // the folder of the running program
  std::filesystem::path cache;     // compiled kernels and measured ceilings, shared by all runs
};

// From the place of the running program; throws MissingError when it was taken out of its house.
House find_house();

// How the user called this program, for commands to copy: "./cultivar". The launcher tells.
std::string called_as();

// A task is named, or its folder is given. Throws InputError that says which names there are.
std::filesystem::path find_task(const House&, const std::string& name_or_folder);
std::vector<std::string> task_names(const House&);

// A file that the user names from where they are, or else from the house: configs/quickstart.yaml.
std::filesystem::path find_file(const House&, const std::string& path, const std::string& what);

// A run is a folder with a run.db, or a name below runs/ here or in the house, or the start of one.
std::filesystem::path find_run(const House&, const std::string& name_or_folder);

// RUN and ID of "RUN:ID"; nullopt: it is not of that form. ID may be empty, and no run or individual need be
// there.
std::optional<std::pair<std::string, std::string>> split_run_and_id(const std::string&);

// A path as one would type it here: from where the user is, or from the root if that is shorter; in quotes if
// a shell needs them.
std::string as_typed(const std::filesystem::path&);

}  // namespace cultivar
