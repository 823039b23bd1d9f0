// SPDX-License-Identifier: Apache-2.0
// The main loop of a worker program: says hello, is configured, and answers one request at a time until its
// input closes. The same for every target; each program provides the functions that create compilers and
// devices.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "evaluators/devices/device.hpp"
#include "evaluators/languages/compiler.hpp"

namespace cultivar {

// The requirements for a compiler.
struct CompilerOrder {
  const Task& task;
  const std::filesystem::path& cache;
  const std::string& architecture;  // empty: the target's default
};

struct WorkerParts {
  Target target = usual_target();
  std::function<std::unique_ptr<Compiler>(const CompilerOrder&)> compiler;  // may throw MissingError
  std::function<std::unique_ptr<Device>(const std::filesystem::path& cache, int device)> device;
};

// argv: `compile`, or `measure [--device N] [--cores N]` (0: all). Returns the exit code: 0 when the engine
// disconnected, 2 for bad usage.
int serve(const WorkerParts&, int argc, char** argv);

}  // namespace cultivar
