// SPDX-License-Identifier: Apache-2.0
// A task of a user's own, as a user would write it: rms_norm, with a plain seed and one with tunables, small
// enough to be searched in seconds; copies of shipped tasks with other workloads; and the built program,
// called as a user calls it. The kernels have enough work for machines with slow handshakes, because runs
// shorter than shortest_in_handshakes are not timed. They compute much (std::hypot) on little data, because
// generating inputs takes most of a test's time.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/command.hpp"

namespace cultivar::testing {

// Fills `folder` with rms_norm/ (task.yaml, reference.cpp, seeds/plain.cpp, seeds/blocked.cpp) and
// search.yaml, a configuration named `own` that searches it for the given budget, e.g. "{evaluations: 6,
// wall: 2m}".
void write_own_task(const std::filesystem::path& folder, const std::string& budget);

// Replaces its workloads by these, one per line, as in "      - {R: 2048, C: 1024}\n".
void set_own_workloads(const std::filesystem::path& folder, const std::string& lines);

// A seed for it that recomputes the norm for every 128 columns: so slow that noise cannot hide an
// improvement.
extern const char* const slow_rms_norm;

// Copies the task of this name from configs/tasks to `folder`, with these as the workloads of cpu_quick.
void copy_task(const std::string& name, const std::filesystem::path& folder, const std::string& lines);

// Runs the built program in `folder`.
CommandResult cultivar_in(const std::filesystem::path& folder, std::vector<std::string> arguments,
                          double deadline_s = 300.0);
std::vector<std::string> cultivar_command(std::vector<std::string> arguments);

// stdout must contain only JSON; throws with the text otherwise.
nlohmann::json facts(const CommandResult&);

}  // namespace cultivar::testing
