// SPDX-License-Identifier: Apache-2.0
// Which of the files in a task's folder belong to the task, and in which language its reference is.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace cultivar {

// Written by `cultivar import` of a problem of KernelBench, for exports.
inline constexpr const char* kModelNew = "model_new.py";

// A file's text by its name; nullopt: there is none.
using ReadTaskFile = std::function<std::optional<std::string>(const std::string&)>;

// Whether a reference, a file of this name, is a PyTorch program (otherwise C++).
bool is_in_python(const std::filesystem::path& reference);
// The reference, a file of this name, and the files of its folder that it includes or imports, also through
// each other.
std::set<std::string> files_of_reference(const std::string& reference, const ReadTaskFile&);
// pytorch.py, if there is one, and the modules of its folder that it imports.
std::set<std::string> files_of_pytorch(const ReadTaskFile&);

}  // namespace cultivar
