// SPDX-License-Identifier: Apache-2.0
// A search in a process of its own, in a session without a terminal, and how to find and stop such a process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/output.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

// Starts this program with `arguments`; it prints to the run's log. Returns when its search has begun, has
// ended, or needs longer than a minute to begin. The command's exit code: 0, or that of a search that failed.
int start_detached(std::vector<std::string> arguments, const RunFolder&, const Output&);

// The process of this machine that holds the run, or nullopt. An InputError if another machine or container
// holds it.
std::optional<int> process_of(const RunFolder&);
bool is_suspended(int process);  // by SIGSTOP, or in a terminal

}  // namespace cultivar
