// SPDX-License-Identifier: Apache-2.0
// The Python program of engine/import, started in a sandbox, and what the judge says of the task that it
// made.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "evaluators/system/interpreter.hpp"

namespace cultivar {

struct ImportCall {
  std::string subject;  // what is imported, for messages
  std::vector<std::string> arguments;
  std::vector<std::filesystem::path> readable, writable;
  bool quiet = false;  // no progress
  bool card = false;   // PythonProgram::card
};
// Its result; throws when it ends without one, or says nothing for minutes.
nlohmann::json run_import_program(const ImportCall&, const Interpreter&, const InstallationPaths&);

// The judge's own comparison must tell each mistake in the function from it. Those that it does not tell are
// left out of the controls in task.yaml, and returned. `parts`: "task_yaml" of the result.
std::vector<nlohmann::json> drop_unnoticed(const std::filesystem::path& folder, const InstallationPaths&,
                                           const std::string& python, const nlohmann::json& parts);

}  // namespace cultivar
