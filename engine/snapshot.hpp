// The task as it was when the run began, kept within the run: nothing that a user edits later can change its
// meaning.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/config.hpp"
#include "engine/run_folder.hpp"
#include "evaluators/error.hpp"

namespace cultivar {

// Copies the task's files, the seeds and the contenders below RunFolder::tasks()/NAME; the configuration that
// comes back names the copies by paths relative to the run folder. `files` gets every copied text by its path
// below the task.
Expected<Config> take_snapshot(const Config&, const std::string& task_name, const RunFolder&,
                               nlohmann::json& files);
// Writes every file that is missing or was changed.
Expected<void> restore_snapshot(const nlohmann::json& files, const std::string& task_name, const RunFolder&);

}  // namespace cultivar
