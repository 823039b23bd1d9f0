#include "evaluators/targets/sandbox.hpp"

#include "evaluators/system/process.hpp"

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
  } else {
    program_ = found.string();
  }
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
