// SPDX-License-Identifier: Apache-2.0
// Values for the templates of a bundle's Python files.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// For pytorch_module.py and pytorch_test.py, by placeholder. The test's shapes are those of the task's checks
// that a kernel serves, and a few that none does.
std::map<std::string, std::string, std::less<>> pytorch_values(
    const LauncherInput&, const std::string& identity, const std::function<bool(const Workload&)>& serves);
// pytorch/model_new.py: KernelBench's ModelNew in one file, of the problem's file (`problem`), the class that
// `cultivar import` wrote for it (`model_new`), and what of the bundle's `files` its operator is built from.
std::string model_new(const std::map<std::string, std::string>& files, const std::string& problem,
                      const std::string& model_new,
                      const std::map<std::string, std::string, std::less<>>& values);
// A valid Python name: an underscore is appended to Python's keywords.
std::string python_name(const std::string&);

}  // namespace cultivar
