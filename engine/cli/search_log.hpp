// SPDX-License-Identifier: Apache-2.0
// The log of a search that runs without a terminal: what it prints to stdout and stderr.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace cultivar {

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
