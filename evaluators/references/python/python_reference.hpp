// SPDX-License-Identifier: Apache-2.0
// A reference in PyTorch: reference.py, which defines compute(INPUTS..., *, PARAMETERS...). A process of its
// own computes it (cultivar_reference/host.py), in f64 or with the permitted roundings
// (cultivar_reference/modes.py). A task may come from anybody, so that process runs behind bubblewrap, or
// file access rules, without a network, with limited memory and time. One that ends or does not answer is
// replaced at the next question.
#pragma once

#include <filesystem>
#include <string>

#include "evaluators/references/reference.hpp"
#include "evaluators/system/sandbox.hpp"

namespace cultivar {

// Starts the process and loads reference.py. `python`: a path or a name in PATH. An Error names the line of
// reference.py, or what the interpreter lacks.
Expected<TaskReference> open_python_reference(const Task&, const std::filesystem::path& cache,
                                              const std::string& python, double deadline_s);

// The Python files of that process.
PythonFiles reference_python_files();

}  // namespace cultivar
