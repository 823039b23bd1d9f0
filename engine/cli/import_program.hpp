// SPDX-License-Identifier: Apache-2.0
// The Python program of engine/import, started in a sandbox, what the judge says of the task that it made,
// and `cultivar import --inputs`, which makes a campaign.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/cli/installation_paths.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/target/traits.hpp"

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

// A whole PyTorch model becomes a campaign: its profile, a task for each region
// that promises enough, and campaign.yaml, a suite with a ranking.

// On which a whole model can be made faster: those whose kernels can be exported, and thus put back into it.
std::vector<Target> model_devices();

struct ModelImport {
  std::filesystem::path source;  // exists
  std::string within;            // ":NAME" or empty
  std::string inputs;            // a function's name, FILE.py or FILE.py:NAME
  std::filesystem::path folder;  // of the campaign: absolute, exists, empty
  std::string device = "cpu";    // one of model_devices()
  std::string python, budget;    // of all searches together, a duration
  int threads = 0, regions = 6;  // threads of the model and of kernels, 0: all cores; the most tasks
  double least = 0.02;           // the share of the model's time that a region must promise
  bool known = false;            // only functions that an installed task computes
  bool autotune = true;          // whether torch.compile with max-autotune is one of the baselines
  bool as_json = false;
};

// The exit code of the command: also 0 if nothing is worth doing, which it says.
int import_model(const ModelImport&);

}  // namespace cultivar
