// SPDX-License-Identifier: Apache-2.0
// Which library is a contender, and how the contenders of a worker are prepared. Plain values.
#pragma once

#include <filesystem>
#include <string>

namespace cultivar {

// What a contender consists of.
struct ContenderFile {
  std::filesystem::path library;
  // Of the library that hosts Python: "torch", "torch_compile", or the path of a .py file. Otherwise empty.
  std::string program = {};
};

// How the contenders of one worker are prepared.
struct ContenderSettings {
  std::string python = "python3";  // the interpreter whose packages a Python program imports
  double prepare_s = 600.0;        // limit of one prepare
  std::filesystem::path cache = {};
};

}  // namespace cultivar
