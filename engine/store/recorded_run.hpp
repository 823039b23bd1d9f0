// SPDX-License-Identifier: Apache-2.0
// What a new search, a resumed search and a replay read from the record, and the copy of the task in the run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/store/run_folder.hpp"
#include "evaluators/devices/ceilings.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Of one device of a run's environment; all 0 in records that lack them.
Ceilings ceilings_in(const nlohmann::json& device);
nlohmann::json ceilings_json(const Ceilings&);  // as a device's environment has them
// The facts of the first device; every decision depends on them.
Facts facts_in(const nlohmann::json& environment);

// The fitness of a kernel at the peaks that were measured on the first device; 0: unknown.
double roofline_in(const nlohmann::json& environment, const Config&);

// The times of an evaluation in which the first device's memory could not have delivered the bytes.
std::vector<BeyondMemory> beyond_memory_in(const nlohmann::json& environment, const Config&,
                                           const Evaluation&);

// A configuration as it is recorded, its paths relative to the run folder, which may be moved; and back.
Config relative_to(const RunFolder&, Config);
Config absolute_in(const RunFolder&, Config);

// Paths of the recorded configuration are relative to the run folder, which may have been moved since.
Config recorded_config(const std::string& yaml, const RunFolder&, const std::vector<std::string>& overrides,
                       const Installation&);

// Stores a copy of the task in the run when it starts, so that later edits cannot change the run.

// The configuration's seeds and contenders, in its order.
struct LoadedSources {
  std::vector<VariantPtr> seeds, contenders;
};

// Copies the task's files (task.yaml, pytorch.py, its reference and what these need from its folder), the
// seeds and the contenders into RunFolder::tasks()/NAME; the returned configuration names the copies by paths
// relative to the run folder. `files` receives every copied text by its path relative to the task.
Expected<Config> take_snapshot(const Config&, const LoadedSources&, const RunFolder&, nlohmann::json& files);
// Restores every file that is missing or was changed.
Expected<void> restore_snapshot(const nlohmann::json& files, const std::string& task_name, const RunFolder&);

}  // namespace cultivar
