// SPDX-License-Identifier: Apache-2.0
// The export of a cpu kernel of a user's own task (own_task.hpp), of a run that evaluates nothing.
#pragma once

#include <filesystem>
#include <string>

namespace cultivar::testing {

// Exports this kernel of the task in `folder`/rms_norm to `folder`/bundle; `cover` is --cover. Throws
// std::runtime_error.
void export_own_kernel(const std::filesystem::path& folder, const std::string& kernel,
                       const std::string& cover = "");
// Writes that task, with these workloads.
void write_own_task_for(const std::filesystem::path& folder, const std::string& workloads);

}  // namespace cultivar::testing
