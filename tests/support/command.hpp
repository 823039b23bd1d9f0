// SPDX-License-Identifier: Apache-2.0
// Runs a program as a user would (arguments, folder, environment), and collects its output and exit status.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "evaluators/system/privileges.hpp"

namespace cultivar::testing {

struct CommandResult {
  int exit = -1;  // 128 + signal if killed, -1 if given up
  std::string out, err;
  double seconds = 0.0;
};

struct CommandOptions {
  std::filesystem::path folder = {};
  std::map<std::string, std::string> environment = {};  // set in addition
  double deadline_s = 60.0;                             // after this the whole process group is killed
  const FileAccessRules* walls = nullptr;               // null: none
};

// Its own process group, stdin from /dev/null, output through files so that it can never block.
class RunningCommand {
 public:
  explicit RunningCommand(const std::vector<std::string>& command, const CommandOptions& = {});
  ~RunningCommand();  // kills what is left
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const, err() const;  // so far
  bool running();
  void signal(int number);        // only to the program
  void signal_group(int number);  // as a terminal's Ctrl-C does
  CommandResult wait();

 private:
  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
  double started_ = 0.0, deadline_ = 0.0;
};

CommandResult run_command(const std::vector<std::string>& command, const CommandOptions& = {});

// An empty folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path&);
void write_text(const std::filesystem::path&, const std::string& text, bool executable = false);

}  // namespace cultivar::testing
