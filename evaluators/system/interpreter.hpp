// SPDX-License-Identifier: Apache-2.0
// A Python interpreter of the user's, as a host of contenders (by its shared library) or in a process of its
// own (references, import).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

// $CULTIVAR_PYTHON, otherwise python3.
std::string default_python();

struct Interpreter {
  std::string executable;  // full path; of a virtual environment: the path in it
  std::string library;     // full path of libpython3.X.so; empty: there is none
  std::string version;     // "3.12.3"
  std::string torch;       // version of PyTorch; empty unless it was imported
  std::string packages;    // the folder of its package torch; empty: it has none
  std::string triton;      // version of its package triton; empty: it has none
  std::string triton_at;   // the folder of that package
  // What must be readable to run it, besides /usr and /lib.
  std::vector<std::filesystem::path> places;
};

// What is needed of an interpreter.
enum class PythonNeeds {
  library,         // a shared library of it
  torch,           // a package torch, which is not imported
  imported_torch,  // both, and PyTorch can be imported, which takes seconds
  triton           // a package triton, which is not imported
};
// Asks the interpreter, a path or a name in PATH, in a process of its own. The Error names the remedy.
Expected<Interpreter> find_interpreter(const std::string& python, PythonNeeds);

// "softmax.py:3: SyntaxError: '(' was never closed"; empty if this interpreter compiles the file, which it
// does not run, or cannot be asked.
std::string syntax_error(const Interpreter&, const std::filesystem::path& file);

}  // namespace cultivar
