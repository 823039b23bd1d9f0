// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/open_reference.hpp"

#include <fmt/format.h>

#include "evaluators/references/cpp/cpp_reference.hpp"
#include "evaluators/references/python/python_reference.hpp"

namespace cultivar {

Expected<TaskReference> open_reference(const Task& task, const std::filesystem::path& cache,
                                       const std::string& python, double deadline_s) {
  const std::string language = task.reference.extension();
  if (language == ".cpp") return open_cpp_reference(task, cache, deadline_s);
  if (language == ".py") return open_python_reference(task, cache, python, deadline_s);
  return failure("oracle", fmt::format("{}: no reference is written in this language (C++: reference.cpp; "
                                       "PyTorch: reference.py)",
                                       task.reference.string()));
}

}  // namespace cultivar
