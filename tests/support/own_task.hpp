// A user's own task, written as a user would write it: rms_norm, with a plain seed and one with knobs, small
// enough to be searched in seconds; and tasks of ours with other workloads. And the built program, called as
// a user calls it. Kernels are given enough to do for machines whose handshakes are slow: what takes fewer
// than shortest_in_handshakes is not timed. It is much to compute, by std::hypot, of little data, since most
// of a test's time goes into the making of inputs.
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

// Makes its workloads these, one a line as in "      - {R: 2048, C: 1024}\n".
void set_own_workloads(const std::filesystem::path& folder, const std::string& lines);

// A seed for it that makes the norm anew for every 128 columns: so slow that no noise hides what is better.
extern const char* const slow_rms_norm;

// Copies the task of this name from configs/tasks to `folder`, with these as the workloads of cpu_quick.
void copy_task(const std::string& name, const std::filesystem::path& folder, const std::string& lines);

// Runs the built program in `folder`.
CommandResult cultivar_in(const std::filesystem::path& folder, std::vector<std::string> arguments,
                          double deadline_s = 300.0);
std::vector<std::string> cultivar_command(std::vector<std::string> arguments);

// What stands on stdout must be JSON and nothing else; throws with the text when it is not.
nlohmann::json facts(const CommandResult&);

}  // namespace cultivar::testing
