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
  std::string name;                     // unique; the run's folder is the suite's folder / name
  Config config;                        // limited by its budget
  std::vector<std::string> given = {};  // the overrides in it
};

// A task that is a region of a model.
struct RegionTime {
  double ms = 0.0;  // of all its calls in one pass of the model, where the model is fastest today
  double alone_ms =
      0.0;  // by itself, where a compiler cannot fuse it with what is around it: what kernels replace
  double floor_ms = 0.0;  // what the machine needs for it at least
  // Of one call in the model, with which the kernel's time on the search's workload is compared; 0: the
  // kernel is compared with its contenders, which compute the region.
  double call_ms = 0.0;
};

struct Suite {
  std::string name;
  std::vector<SuiteTask> tasks;                // in their order, at least one
  std::map<std::string, std::string> refused;  // problems of which no task could be made: why
  // Of a campaign: for every task by name; empty: the searches run in their order.
  std::map<std::string, RegionTime> ranking = {};
  std::map<std::string, double> limits = {};  // of all searches together, by kind as in Summary::budget
};

// `name`; `common`: keys of a search's configuration that hold for all tasks; `tasks`: a list of such keys,
// each of which replaces that of `common`. A task's `name` is by default that of its `task`; `refused` (may
// be left out): problems that are no tasks, by name, with the reason; `ranking` (may be left out): {ms,
// alone_ms, floor_ms, call_ms} for every task by name, and then `budget`, limits of all searches together;
// its wall time is then also the limit of each search that has none. Paths are relative to the file.
// `overrides` are applied to every task. Throws InputError; if several tasks are wrong, the message has a
// line for each.
Suite load_suite(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                 const Installation&);

}  // namespace cultivar
