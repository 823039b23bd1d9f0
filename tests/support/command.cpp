// SPDX-License-Identifier: Apache-2.0
#include "support/command.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace cultivar::testing {
namespace {

namespace fs = std::filesystem;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

fs::path new_file(const char* kind) {
  std::string name = (fs::temp_directory_path() / (std::string("cultivar-") + kind + "-XXXXXX")).string();
  const int file = ::mkstemp(name.data());
  if (file < 0) throw std::runtime_error("mkstemp failed");
  ::close(file);
  return name;
}

}  // namespace

RunningCommand::RunningCommand(const std::vector<std::string>& command, const CommandOptions& options)
    : out_(new_file("out")),
      err_(new_file("err")),
      started_(now()),
      deadline_(started_ + options.deadline_s) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    ::setpgid(0, 0);
    const int in = ::open("/dev/null", O_RDONLY);
    const int out = ::open(out_.c_str(), O_WRONLY | O_TRUNC);
    const int err = ::open(err_.c_str(), O_WRONLY | O_TRUNC);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(err, 2);
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
    if (options.walls && !options.walls->enclose_this_thread()) ::_exit(126);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
}

RunningCommand::~RunningCommand() {
  ::kill(-pid_, SIGKILL);
  if (!reaped_) ::waitpid(pid_, &status_, 0);
  std::error_code ignored;
  fs::remove(out_, ignored);
  fs::remove(err_, ignored);
}

std::string RunningCommand::out() const {
  return read_text(out_);
}
std::string RunningCommand::err() const {
  return read_text(err_);
}

bool RunningCommand::running() {
  if (!reaped_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
  return !reaped_;
}

void RunningCommand::signal(int number) {
  if (running()) ::kill(pid_, number);
}

void RunningCommand::signal_group(int number) {
  if (running()) ::kill(-pid_, number);
}

CommandResult RunningCommand::wait() {
  CommandResult result;
  while (running() && now() < deadline_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (running()) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    reaped_ = true;
  } else {
    result.exit = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  result.seconds = now() - started_;
  result.out = out();
  result.err = err();
  return result;
}

CommandResult run_command(const std::vector<std::string>& command, const CommandOptions& options) {
  return RunningCommand(command, options).wait();
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "cultivar-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
  path_ = fs::canonical(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const fs::path& file, const std::string& text, bool executable) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  if (executable)
    fs::permissions(file, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
}

}  // namespace cultivar::testing
