// SPDX-License-Identifier: Apache-2.0
// A systemd user unit that runs a search, and resumes it when the machine has restarted.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cultivar {

struct SystemdUnit {
  std::string name;  // of the search
  std::filesystem::path program, folder, run_folder, config;
  std::vector<std::string> overrides;
  std::string path = {};               // PATH of the search
  std::vector<std::string> keys = {};  // names of the environment variables that hold its secrets
  std::filesystem::path cache = {};    // CULTIVAR_CACHE; empty: the usual folder
};

// A double-quoted word of a unit file that systemd reads back as the same text.
std::string systemd_word(const std::string&);
std::string text_of(const SystemdUnit&);

}  // namespace cultivar
