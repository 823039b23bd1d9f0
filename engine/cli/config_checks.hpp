// SPDX-License-Identifier: Apache-2.0
// What `run` and `suite` check of a configuration before they begin, and with --check.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/variant_argument.hpp"
#include "engine/config/config.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

// Where a configuration is written, for messages.
struct ConfigPlace {
  std::filesystem::path file;
  std::optional<std::size_t> task = {};  // its position in `tasks` of a suite, whose `common` holds the rest
};

// "search.yaml:12: models.m.command": the position of a value in the file; without a line number when it was
// set with --set. `item`: of a list, the line of this item if it is there.
std::string place_of(const ConfigPlace& from, const std::vector<std::string>& keys,
                     const std::string& item = {});

// Every seed must claim the workloads, and its plans must be legal on them and on their check shapes. For
// target cuda, the facts of an H100 are used, whatever GPU is installed. Runs nothing; prints a line for each
// seed, and returns the facts. Throws InputError.
nlohmann::json check_sources(const Config&, const Output&);

// What a search could not use: axes of map_elites that no kernel has, a planner whose strategies no operator
// follows. Not checked when the configuration is read, because records of earlier versions may have it.
// Throws InputError.
void check_choices(const Config&, const ConfigPlace& from);

// Programs and libraries that the configuration names must exist on this machine. Not checked when the
// configuration is read, because a record can be read on any machine. Throws InputError.
void check_programs(const Config&, const InstallationPaths&, const ConfigPlace& from);

// Contenders that this machine cannot time, and where they are named. A search goes on without them. None
// with a launcher, whose machines are others.
struct ContenderWarning {
  std::string place, text;  // with the remedy
};
std::vector<ContenderWarning> contender_warnings(const Config&, const InstallationPaths&,
                                                 const ConfigPlace& from, ContenderTrials&);

// Starts the measuring workers and one compile worker, if they have a launcher, and waits a minute for them.
// Returns how many measuring ones are on which device. If none starts, what the launcher says is part of the
// InputError.
std::vector<WorkersOf> check_launchers(const Config&, const InstallationPaths&, const ConfigPlace& from,
                                       const Output&);

// The limits of the shell and of the machine, as far as they concern a command.

// Throws InputError, with the limit and its value, if nothing can work.
void require_limits();
// The same, and the others as sentences for warnings.
std::vector<std::string> limit_warnings();

// Throws InputError if a workload, timed or of the holdout, can never be evaluated with the memory of this
// machine. A launcher's machines are others.
void check_memory(const Config&, const ConfigPlace& from);
void check_memory(const Task&, const std::vector<Workload>&, Target);

}  // namespace cultivar
