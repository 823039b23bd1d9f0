// SPDX-License-Identifier: Apache-2.0
// A suite: searches of several tasks from one file, which run one after another.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/config/config.hpp"

namespace cultivar {

struct SuiteTask {
  std::string name;  // unique; the run's folder is the suite's folder / name
  Config config;     // limited by its budget
};

struct Suite {
  std::string name;
  std::vector<SuiteTask> tasks;                // in their order, at least one
  std::map<std::string, std::string> refused;  // problems of which no task could be made: why
};

// `name`; `common`: keys of a search's configuration that hold for all tasks; `tasks`: a list of such keys,
// each of which replaces that of `common`. A task's `name` is by default that of its `task`; `refused` (may
// be left out): problems that are no tasks, by name, with the reason. Paths are relative to the file.
// `overrides` are applied to every task. Throws InputError; if several tasks are wrong, the message has a
// line for each.
Suite load_suite(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                 const Installation&);

}  // namespace cultivar
