// SPDX-License-Identifier: Apache-2.0
// Completion of shells, from what the commands themselves define. The scripts ask the program itself, so that
// the values of an option, runs, tasks and their seeds are those of now.
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
nlohmann::json to_json(const DefinedCommand&);

struct Candidate {
  std::string word, about;  // about may be empty
};
struct Candidates {
  enum class Files { none, any, folders, yaml };
  std::vector<Candidate> words;  // those that begin with what was typed
  Files files = Files::none;     // that are also possible
};
// `words`: the command line without the program's name, up to the one that is completed, which may be empty.
// Whatever cannot be read gives no candidates.
Candidates candidates_for(const std::vector<std::string>& words);

// What `cultivar completion --words WORD...` prints for the scripts: a line for each candidate, with a tab
// before its explanation; first, where files are possible, ":files", ":folders" or ":yaml".
inline constexpr const char* kAskForWords = "--words";
std::string text_of(const Candidates&);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace cultivar
