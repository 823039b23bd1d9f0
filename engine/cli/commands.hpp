// SPDX-License-Identifier: Apache-2.0
// Every command of the program: one function in one file. `arguments` excludes the command's name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cli/completion.hpp"

namespace cultivar {

using Arguments = std::vector<std::string>;

struct Command {
  std::string_view name, about;
  int (*run)(const Arguments&);
};

// In the order that --help shows.
std::span<const Command> commands();

int run_command(const Arguments&);
int resume_command(const Arguments&);
int suite_command(const Arguments&);
int optimise_command(const Arguments&);
int apply_command(const Arguments&);
int export_command(const Arguments&);
int portfolio_command(const Arguments&);
int attach_command(const Arguments&);
int stop_command(const Arguments&);
int runs_command(const Arguments&);
int status_command(const Arguments&);
int dashboard_command(const Arguments&);
int show_command(const Arguments&);
int lineage_command(const Arguments&);
int report_command(const Arguments&);
int submit_command(const Arguments&);
int gc_command(const Arguments&);
int evaluate_command(const Arguments&);
int compare_command(const Arguments&);
int profile_command(const Arguments&);
int tasks_command(const Arguments&);
int new_command(const Arguments&);
int import_command(const Arguments&);
int replay_command(const Arguments&);
int doctor_command(const Arguments&);
int mcp_command(const Arguments&);
int completion_command(const Arguments&);

// Runs the command that the first argument names. Prints a message for every error and returns the exit code:
// 0 done, 1 the work failed, 2 bad usage or configuration, 3 something needed is missing, 130 interrupted.
int cultivar_main(const Arguments&);

// Manual pages, from what the commands themselves define. In roff, section 1.

std::string manual_of_program(const std::vector<DefinedCommand>&);  // with all commands and their options
std::string manual_of(const DefinedCommand&);

}  // namespace cultivar
