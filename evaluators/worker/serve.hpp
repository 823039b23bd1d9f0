// A worker program's main loop: says hello, is configured, answers one request at a time until its input
// closes. The same for every target; a program brings the parts that make compilers and devices.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "evaluators/targets/target.hpp"

namespace cultivar {

// What a compiler is wanted for.
struct CompilerOrder {
  const Task& task;
  const std::filesystem::path& cache;
  bool contender = false;           // trusted code that may include a library's headers
  const std::string& architecture;  // empty: the target's usual one
};

struct WorkerParts {
  std::string program;  // "cultivar-worker-cpu"
  TargetKind target = TargetKind::cpu;
  std::function<std::unique_ptr<Compiler>(const CompilerOrder&)> compiler;  // may throw MissingError
  std::function<std::unique_ptr<Device>(const std::filesystem::path& cache, int device)> device;
};

// argv: `compile`, or `measure [--device N] [--cores N]` (0: all). Returns the exit code: 0 when the engine
// went away, 2 for bad usage.
int serve(const WorkerParts&, int argc, char** argv);

}  // namespace cultivar
