// SPDX-License-Identifier: Apache-2.0
// A search in a process of its own, in a session without a terminal, and how to find and stop such a process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

// A systemd user unit that runs a search, and resumes it when the machine has restarted.
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

// The log of a search that runs without a terminal: what it prints to stdout and stderr.

// Redirects stdout and stderr of this process to a file. A file above `most_bytes` is renamed to FILE.1, and
// older ones to FILE.2, FILE.3; the oldest is removed. Not thread-safe, except that any thread may print.
class SearchLog {
 public:
  static constexpr int kKept = 3;
  // Appends. Throws std::runtime_error if the file cannot be written.
  explicit SearchLog(std::filesystem::path file, std::uintmax_t most_bytes = 8U << 20);
  // Also marks the place where lines are missing because the disk was full.
  void rotate_if_large();  // if it cannot be renamed, it grows further

 private:
  void redirect() const;
  std::filesystem::path file_;
  std::uintmax_t most_bytes_;
};

// Passes the end of the log, and then each new line, to `show`, also across rotations, until `goes_on`
// returns false; it is asked a few times per second.
void follow_log(const std::filesystem::path& file, std::size_t last_lines,
                const std::function<void(const std::string&)>& show, const std::function<bool()>& goes_on);

}  // namespace cultivar
