// SPDX-License-Identifier: Apache-2.0
// The Python interpreter whose packages a Python contender imports, and the shared library of that Python,
// with which a worker hosts it.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/system/error.hpp"

namespace cultivar {

// $CULTIVAR_PYTHON, otherwise python3.
std::string default_python();

struct Interpreter {
  std::string executable;  // full path; of a virtual environment: the path in it
  std::string library;     // full path of libpython3.X.so
  std::string version;     // "3.12.3"
  std::string torch;       // version of PyTorch; empty unless it was asked for
  bool has_torch = false;  // it has a package of this name, which was not imported
};

// Asks the interpreter, a path or a name in PATH, in a process of its own. The Error names the remedy.
Expected<Interpreter> find_interpreter(const std::string& python);
// The same, and imports PyTorch, which takes seconds.
Expected<Interpreter> find_pytorch(const std::string& python);

// "softmax.py:3: SyntaxError: '(' was never closed"; empty if this interpreter compiles the file, which it
// does not run, or cannot be asked.
std::string syntax_error(const Interpreter&, const std::filesystem::path& file);

}  // namespace cultivar
