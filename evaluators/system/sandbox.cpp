// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/sandbox.hpp"

#include <unistd.h>

#include <algorithm>

namespace cultivar {
namespace {

namespace fs = std::filesystem;

void add(std::vector<std::string>& command, std::initializer_list<std::string> words) {
  command.insert(command.end(), words);
}

std::vector<std::string> base(const std::string& program) {
  std::vector<std::string> command{program};
  add(command, {"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
                "--die-with-parent", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL", "--clearenv",
                "--ro-bind", "/usr", "/usr"});
  for (const char* name : {"/bin", "/sbin", "/lib", "/lib64", "/lib32"}) {
    std::error_code error;
    if (fs::is_symlink(name, error))
      add(command, {"--symlink", fs::read_symlink(name, error).string(), name});
    else if (fs::is_directory(name, error))
      add(command, {"--ro-bind", name, name});
  }
  for (const char* name : {"/etc/ld.so.cache", "/etc/alternatives"})
    add(command, {"--ro-bind-try", name, name});
  return command;
}

}  // namespace

Sandbox::Sandbox() {
  const auto found = find_program("bwrap");
  if (found.empty()) {
    obstacle_ = "bubblewrap (bwrap) is not installed";
    find_other_user();
    return;
  }
  auto command = base(found.string());
  add(command, {find_program("true").string()});
  ProcessOptions options;
  options.command = command;
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child) {
    obstacle_ = child.error().message;
  } else if (!child->wait_or_kill(deadline_in(5.0))) {
    obstacle_ = "bubblewrap did not answer within 5 s";
  } else if (!child->poll()->success()) {
    obstacle_ = child->captured();
    while (!obstacle_.empty() && obstacle_.back() == '\n') obstacle_.pop_back();
    if (obstacle_.empty())
      obstacle_ =
          "bubblewrap " + child->poll()->describe() + " without a message: try `bwrap --ro-bind / / true`";
  } else {
    program_ = found.string();
  }
  if (!usable()) find_other_user();
}

void Sandbox::find_other_user() {
  if (!can_change_user()) return;
  ProcessOptions options;
  options.command = {"true"};
  options.pipe_input = options.pipe_output = false;
  options.privileges = Privileges::another_user;
  auto child = ChildProcess::spawn(options);
  has_other_user_ = child && child->wait_or_kill(deadline_in(5.0)) && child->poll()->success();
}

Privileges Sandbox::privileges_outside(const std::vector<fs::path>& needed, const fs::path& own) const {
  if (!has_other_user_ || !std::all_of(needed.begin(), needed.end(), reachable_by_all))
    return Privileges::none;
  if (!own.empty()) {
    const auto give = [](const fs::path& path) {
      return ::lchown(path.c_str(), other_user, other_user) == 0;
    };
    std::error_code trouble;
    bool given = give(own);
    for (const auto& entry : fs::recursive_directory_iterator(own, trouble))
      given = give(entry.path()) && given;
    if (trouble || !given) return Privileges::none;
  }
  return Privileges::another_user;
}

std::string Sandbox::outside_in_words() const {
  return has_other_user_    ? "as a user of their own without capabilities"
         : ::geteuid() == 0 ? "as root without capabilities"
                            : "without capabilities";
}

Sandbox Sandbox::none(std::string obstacle) {
  return Sandbox(std::move(obstacle));
}

std::vector<std::string> Sandbox::command(const std::vector<SandboxMount>& mounts,
                                          const std::vector<std::string>& flags) const {
  if (!usable()) return {};
  auto command = base(program_);
  for (const auto& mount : mounts)
    add(command, {mount.writable ? "--bind" : "--ro-bind", mount.host.string(), mount.inside.string()});
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

}  // namespace cultivar
