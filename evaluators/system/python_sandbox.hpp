// SPDX-License-Identifier: Apache-2.0
// How a Python program of Cultivar's runs code of a user: the interpreter and its packages, what it may read
// and write, and the limits.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"

namespace cultivar {

// Python files of Cultivar's, by their path in a package, such as "cultivar_reference/modes.py".
using PythonFiles = std::vector<std::pair<std::string, std::string_view>>;
// Writes them below `cache` unless they are there; the folder to put in PYTHONPATH.
Expected<std::filesystem::path> place_python_files(const PythonFiles&, const std::filesystem::path& cache);

// Starts `python -m MODULE ARGUMENTS` in a sandbox: no network, a read-only system, `readable` and `writable`
// at their own paths. `options` keeps what the caller sets (pipes, descriptors, limits).
struct PythonProgram {
  std::string module;
  std::vector<std::string> arguments = {};
  std::filesystem::path sources;                     // place_python_files
  std::vector<std::filesystem::path> readable = {};  // files and folders
  std::vector<std::filesystem::path> writable = {};
  double memory_share = 0.8;  // of the machine's memory limit; with a card it is not limited
  // May use the machine's GPU. Without bubblewrap it is then not confined, as a contender in Python is not.
  bool card = false;
};
Expected<ChildProcess> start_python(const Interpreter&, const PythonProgram&, ProcessOptions options);

}  // namespace cultivar
