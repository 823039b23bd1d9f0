// SPDX-License-Identifier: Apache-2.0
// Shell completion and manual pages, from what the commands themselves define.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/cli/options.hpp"

namespace cultivar {

struct DefinedCommand {
  std::string summary;  // one line, of the table of commands
  CommandDefinition definition;
};
std::vector<DefinedCommand> defined_commands();  // in the order of --help

std::string bash_completion(const std::vector<DefinedCommand>&);
std::string zsh_completion(const std::vector<DefinedCommand>&);
std::string fish_completion(const std::vector<DefinedCommand>&);

// Of the program, with all commands; of one command. In roff, section 1.
std::string manual_of_program(const std::vector<DefinedCommand>&);
std::string manual_of(const DefinedCommand&);

nlohmann::json to_json(const DefinedCommand&);

}  // namespace cultivar
