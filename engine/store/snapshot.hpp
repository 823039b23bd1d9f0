// SPDX-License-Identifier: Apache-2.0
// Stores a copy of the task in the run when it starts, so that later edits cannot change the run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/config/config.hpp"
#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

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
