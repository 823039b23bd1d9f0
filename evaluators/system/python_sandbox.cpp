// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/python_sandbox.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"

namespace cultivar {

namespace fs = std::filesystem;

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
