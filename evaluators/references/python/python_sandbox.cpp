// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/python/python_sandbox.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "embedded/reference_python.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

constexpr double kAskSeconds = 60.0;

constexpr const char* kQuestion = R"py(
import importlib.util, json, os, sys
torch = importlib.util.find_spec("torch")
packages = os.path.dirname(os.path.dirname(torch.origin)) if torch and torch.origin else ""
places = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))), packages}
print(json.dumps({"executable": sys.executable, "places": sorted(p for p in places if p), "packages": packages,
                  "version": list(sys.version_info[:2])}))
)py";

bool in_system(const fs::path& path) {
  const std::string text = path.string();
  return text == "/usr" || text.starts_with("/usr/") || text == "/";
}

}  // namespace

Expected<TorchPython> find_torch_python(const std::string& python) {
  constexpr const char* doing = "find Python";
  constexpr const char* remedy =
      "references in reference.py need a Python with PyTorch 2 (python3 -m venv VENV && VENV/bin/pip install "
      "torch numpy, then --python VENV/bin/python or evaluation.python)";
  ProcessOptions options;
  options.command = {python, "-c", kQuestion};
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child)
    return failure(
        ErrorKind::missing, doing,
        fmt::format("the interpreter '{}' cannot be started: {}; {}", python, child.error().message, remedy));
  const bool in_time = child->wait_or_kill(deadline_in(kAskSeconds));
  std::string said = child->captured();
  said.erase(said.find_last_not_of(" \n") + 1);
  const auto told = nlohmann::json::parse(said.substr(said.rfind('\n') + 1), nullptr, false);
  if (!in_time || !child->poll()->success() || !told.is_object())
    return failure(ErrorKind::missing, doing,
                   fmt::format("the interpreter '{}' {}: {}", python,
                               in_time ? "failed" : "did not answer in time", plain_text(said)));
  TorchPython found;
  found.executable = told.at("executable").get<std::string>();
  found.packages = told.at("packages").get<std::string>();
  for (const auto& place : told.at("places"))
    if (const fs::path path = place.get<std::string>(); !in_system(path)) found.places.push_back(path);
  if (found.packages.empty())
    return failure(ErrorKind::missing, doing,
                   fmt::format("{} has no PyTorch; {}", found.executable.string(), remedy));
  return found;
}

PythonFiles reference_python_files() {
  PythonFiles files;
  for (const auto& [name, text] : reference_python::all)
    files.emplace_back("cultivar_reference/" + std::string(name), text);
  return files;
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

Expected<ChildProcess> start_python(const TorchPython& python, const PythonProgram& program,
                                    ProcessOptions options) {
  const Sandbox sandbox;
  const std::vector<std::pair<std::string, std::string>> environment = {
      {"PATH", "/usr/local/bin:/usr/bin:/bin"},
      {"LC_ALL", "C.UTF-8"},
      {"HOME", "/tmp"},
      {"USER", "cultivar"},  // PyTorch asks for a name, and the user of the sandbox has none
      {"PYTHONPATH", program.sources.string() + ":" + python.packages},
      {"PYTHONDONTWRITEBYTECODE", "1"},
      {"PYTHONUNBUFFERED", "1"},
      {"PYTHONHASHSEED", "0"},
      {"OMP_WAIT_POLICY", "PASSIVE"},  // threads that spin would disturb what is timed next
      {"CUDA_VISIBLE_DEVICES", ""}};
  Expected<FileAccessRules> walls = failure("landlock", "not needed");
  if (sandbox.usable()) {
    std::vector<std::string> flags = {"--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"};
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
    walls = FileAccessRules::make(readable, writable);
    if (walls) options.walls = &*walls;
    options.privileges = Privileges::none;
    options.environment.emplace();
    for (const auto& [name, value] : environment) options.environment->push_back(name + "=" + value);
  }
  for (const std::string& word :
       {python.executable.string(), std::string("-s"), std::string("-m"), program.module})
    options.command.push_back(word);
  options.command.insert(options.command.end(), program.arguments.begin(), program.arguments.end());
  options.expendable = true;
  const auto bytes = static_cast<std::size_t>(program.memory_share * memory_limit().bytes);
  options.limits.insert(
      options.limits.end(),
      {{RLIMIT_CORE, 0}, {RLIMIT_DATA, bytes}, {RLIMIT_FSIZE, std::size_t{1} << 30}, {RLIMIT_NPROC, 4096}});
  return ChildProcess::spawn(options);
}

}  // namespace cultivar
