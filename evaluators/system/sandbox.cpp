// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/sandbox.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>

#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

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

Expected<fs::path> place_python_files(const PythonFiles& files, const fs::path& cache) {
  std::string all;
  for (const auto& [name, text] : files) all += name + "\n" + sha256_hex(text) + "\n";
  const fs::path folder = fs::absolute(cache) / "python" / sha256_hex(all).substr(0, 32);
  for (const auto& [name, text] : files) {
    std::error_code made;
    fs::create_directories((folder / name).parent_path(), made);
    if (made) return failure("python", fmt::format("cannot create {}: {}", folder.string(), made.message()));
    if (const auto written = write_if_missing(folder / name, text); !written)
      return tl::make_unexpected(written.error());
  }
  return folder;
}

Expected<ChildProcess> start_python(const Interpreter& python, const PythonProgram& program,
                                    ProcessOptions options) {
  const Sandbox sandbox;
  std::vector<std::pair<std::string, std::string>> environment = {
      {"PATH", "/usr/local/bin:/usr/bin:/bin"},
      {"LC_ALL", "C.UTF-8"},
      {"HOME", "/tmp"},
      {"TMPDIR", "/dev/shm"},  // PyTorch wants a place, and /tmp is read-only where the file lies there
      {"USER", "cultivar"},    // PyTorch asks for a name, and the user of the sandbox has none
      {"PYTHONPATH", program.sources.string() + ":" + python.packages},
      {"PYTHONDONTWRITEBYTECODE", "1"},
      {"PYTHONUNBUFFERED", "1"},
      {"PYTHONHASHSEED", "0"},
      {"OMP_WAIT_POLICY", "PASSIVE"}};  // threads that spin would disturb what is timed next
  if (program.card) {
    // What torch.compile and CMake start, and CMake itself: it may be a package of this Python, or, where
    // nothing hides the user's folders, anywhere in PATH.
    std::string& path = environment.front().second;
    path = fs::path(python.executable).parent_path().string() + ":" + path + ":/sbin:/usr/local/cuda/bin";
    if (const char* value = std::getenv("PATH"); value && !sandbox.usable()) path += ":" + std::string(value);
    for (const char* name : {"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME"})
      if (const char* value = std::getenv(name)) environment.emplace_back(name, value);
  } else {
    environment.emplace_back("CUDA_VISIBLE_DEVICES", "");
  }
  Expected<FileAccessRules> walls = failure("landlock", "not needed");
  if (sandbox.usable()) {
    std::vector<std::string> flags = {program.card ? "--dev-bind" : "--dev", "/dev"};
    if (program.card) flags.insert(flags.end(), {"/dev", "--ro-bind", "/sys", "/sys"});
    flags.insert(flags.end(), {"--proc", "/proc", "--tmpfs", "/tmp"});
    // Below /tmp, what is mounted must come after the empty folder there.
    const auto bind = [&](const char* how, const fs::path& path) {
      flags.insert(flags.end(), {how, path.string(), path.string()});
    };
    for (const fs::path& place : python.places) bind("--ro-bind", place);
    bind("--ro-bind", program.sources);
    for (const fs::path& place : program.readable) bind("--ro-bind", place);
    for (const fs::path& place : program.writable) bind("--bind", place);
    for (const auto& [name, value] : environment) flags.insert(flags.end(), {"--setenv", name, value});
    flags.insert(flags.end(), {"--chdir", "/tmp", "--new-session", "--"});
    options.command = sandbox.command({}, flags);
  } else {
    std::vector<fs::path> readable = {"/usr", "/bin",  "/lib", "/lib64",
                                      "/etc", "/proc", "/sys", "/dev/urandom"};
    readable.insert(readable.end(), python.places.begin(), python.places.end());
    readable.push_back(program.sources);
    readable.insert(readable.end(), program.readable.begin(), program.readable.end());
    std::vector<fs::path> writable = {"/dev/null", "/dev/shm"};
    writable.insert(writable.end(), program.writable.begin(), program.writable.end());
    if (!program.card) {  // a driver opens what no list has
      walls = FileAccessRules::make(readable, writable);
      if (walls) options.walls = &*walls;
      options.privileges = Privileges::none;
    }
    options.environment.emplace();
    for (const auto& [name, value] : environment) options.environment->push_back(name + "=" + value);
  }
  for (const std::string& word : {python.executable, std::string("-s"), std::string("-m"), program.module})
    options.command.push_back(word);
  options.command.insert(options.command.end(), program.arguments.begin(), program.arguments.end());
  options.expendable = true;
  const auto bytes = static_cast<std::size_t>(program.memory_share * memory_limit().bytes);
  const auto unless_given = [&](int limit, std::size_t most) {
    if (std::ranges::none_of(options.limits, [&](const auto& given) { return given.first == limit; }))
      options.limits.emplace_back(limit, most);
  };
  unless_given(RLIMIT_CORE, 0);
  unless_given(RLIMIT_FSIZE, std::size_t{1} << 30);
  unless_given(RLIMIT_NPROC, 4096);
  if (!program.card) unless_given(RLIMIT_DATA, bytes);  // a driver reserves far more than it uses
  return ChildProcess::spawn(options);
}

}  // namespace cultivar
