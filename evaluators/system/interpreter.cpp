// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/interpreter.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"

namespace cultivar {
namespace {

constexpr double kAskSeconds = 60.0, kImportSeconds = 300.0;

// Prints one line of JSON. A library of the same minor version is compatible, wherever it comes from; last of
// all one that was put beside Cultivar's libraries (argv[1]).
constexpr const char* kQuestion = R"py(
import importlib.metadata, importlib.util, json, os, sys, sysconfig
v = sysconfig.get_config_var
names = [n for n in (v("INSTSONAME"), v("LDLIBRARY")) if n and ".so" in n]
names.append("libpython%d.%d.so.1.0" % sys.version_info[:2])
folders = [v("LIBDIR"), os.path.join(v("LIBDIR") or "", v("MULTIARCH") or ""), os.path.join(sys.base_prefix, "lib"),
           "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib", sys.argv[1]]
found = [p for f in folders if f for n in names for p in [os.path.join(f, n)] if os.path.isfile(p)]
spec = importlib.util.find_spec("torch")
packages = os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else ""
spec = importlib.util.find_spec("triton")
triton_at = os.path.dirname(spec.origin) if spec and spec.origin else ""
try:
    triton = importlib.metadata.version("triton") if triton_at else ""
except importlib.metadata.PackageNotFoundError:
    triton = triton_at = ""
places = {sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))), packages, os.path.dirname(triton_at)}
torch = ""
if len(sys.argv) > 2 and packages:
    import torch
    torch = torch.__version__
print(json.dumps({"executable": sys.executable, "library": found[0] if found else "", "wanted": names[-1],
                  "version": "%d.%d.%d" % sys.version_info[:3], "torch": torch, "packages": packages,
                  "triton": triton, "triton_at": triton_at,
                  "places": sorted(p for p in places if p)}))
)py";

bool in_system(const std::string& path) {
  return path == "/usr" || path.starts_with("/usr/") || path == "/";
}

}  // namespace

std::string default_python() {
  const char* const named = std::getenv("CULTIVAR_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

std::string syntax_error(const Interpreter& interpreter, const std::filesystem::path& file) {
  constexpr const char* kCompile = R"py(
import sys
file = sys.argv[1]
try:
    compile(open(file, "rb").read(), file, "exec")
except (SyntaxError, ValueError) as error:
    line = getattr(error, "lineno", None)
    place = file + (":%d" % line if line else "")
    print("%s: %s: %s" % (place, type(error).__name__, getattr(error, "msg", None) or error))
)py";
  ProcessOptions options;
  options.command = {interpreter.executable, "-W", "ignore", "-c", kCompile, file.string()};
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child || !child->wait_or_kill(deadline_in(kAskSeconds)) || !child->poll()->success()) return {};
  std::string said = plain_text(child->captured());
  said.erase(said.find_last_not_of(" \n") + 1);
  return said;
}

Expected<Interpreter> find_interpreter(const std::string& python, PythonNeeds needs) {
  constexpr const char* doing = "find Python";
  const bool for_triton = needs == PythonNeeds::triton,
             for_torch = needs != PythonNeeds::library && !for_triton,
             imports = needs == PythonNeeds::imported_torch;
  const std::string remedy =
      for_torch
          ? "it needs PyTorch 2 and numpy (python3 -m venv VENV && VENV/bin/pip install torch numpy, then "
            "--python VENV/bin/python or evaluation.python)"
      : for_triton
          ? "it needs Triton 3.3 or later (python3 -m venv VENV && VENV/bin/pip install triton, then "
            "--python VENV/bin/python, evaluation.python or CULTIVAR_PYTHON)"
          : "name another interpreter (evaluation.python, --python)";
  ProcessOptions options;
  std::error_code ignored;
  const std::string beside =
      (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "../lib")
          .lexically_normal()
          .string();
  options.command = {python, "-c", kQuestion, beside};
  if (imports) options.command.emplace_back("torch");
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child)
    return failure(ErrorKind::missing, doing,
                   fmt::format("the interpreter '{}' cannot be started: {}; install Python 3.8 or later; {}",
                               python, child.error().message, remedy));
  const bool in_time = child->wait_or_kill(deadline_in(imports ? kImportSeconds : kAskSeconds));
  std::string said = child->captured();
  said.erase(said.find_last_not_of(" \n") + 1);
  const std::string last = said.substr(said.rfind('\n') + 1);
  const nlohmann::json told = nlohmann::json::parse(last, nullptr, false);
  if (!in_time || !child->poll()->success() || !told.is_object())
    return failure(ErrorKind::missing, doing,
                   fmt::format("the interpreter '{}' {}: {}; {}", python,
                               in_time ? "failed" : "did not answer in time", plain_text(last), remedy));
  Interpreter found{told.value("executable", ""), told.value("library", ""),
                    told.value("version", ""),    told.value("torch", ""),
                    told.value("packages", ""),   told.value("triton", ""),
                    told.value("triton_at", ""),  {}};
  for (const std::string& place : told.value("places", std::vector<std::string>()))
    if (!in_system(place)) found.places.emplace_back(place);
  if (found.packages.empty() && for_torch)
    return failure(ErrorKind::missing, doing, fmt::format("{} has no PyTorch; {}", found.executable, remedy));
  if (found.triton.empty() && for_triton)
    return failure(ErrorKind::missing, doing, fmt::format("{} has no Triton; {}", found.executable, remedy));
  if (found.library.empty() && needs != PythonNeeds::torch && !for_triton)
    return failure(ErrorKind::missing, doing,
                   fmt::format("{} is Python {}, whose shared library {} is not installed; install it "
                               "(Debian, Ubuntu: apt-get install libpython{}), or {}",
                               found.executable, found.version, told.value("wanted", ""),
                               found.version.substr(0, found.version.rfind('.')), remedy));
  return found;
}

}  // namespace cultivar
