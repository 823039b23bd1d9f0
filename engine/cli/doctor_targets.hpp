// SPDX-License-Identifier: Apache-2.0
// What the doctor finds out about each target: its compiler, its devices, how candidates are kept in, and
// which contender libraries load.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/output.hpp"

namespace cultivar {

struct DoctorReport {
  const Output& output;
  nlohmann::json facts = {}, missing = nlohmann::json::array();

  void line(const std::string& what, const std::string& words) const;
  void lacks(const std::string& what, const std::string& remedy, bool needed);
};

bool on_path(const std::string& program);
void examine_targets(const InstallationPaths&, DoctorReport&);

}  // namespace cultivar
