// SPDX-License-Identifier: Apache-2.0
// `cultivar import --inputs`: a whole PyTorch model becomes a campaign: its profile, a task for each region
// that promises enough, and campaign.yaml, a suite with a ranking.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/target/traits.hpp"

namespace cultivar {

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
