// SPDX-License-Identifier: Apache-2.0
// What a compiler made of a variant, or why it made nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "evaluators/coverage/coverage.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

using LaunchChoices = std::map<std::string, std::map<std::string, std::vector<std::int64_t>>>;

struct Binary {
  std::filesystem::path path;  // content-addressed, in the cache
  std::string machine_code;    // hash of the code alone: equal for equal kernels
  std::vector<std::string> macros;
  Resources resources;
  std::string log;  // warnings, as the compiler printed them
  // What the compiler decided of launches: kernel -> launch key of the target -> numbers.
  LaunchChoices chosen = {};
  // Of a check build only (see Compiler::compile_check_build): its blocks, and how many counters it has.
  std::vector<CodeBlock> blocks = {};
  std::uint64_t counters = 0;
};

struct CompilerInfo {
  std::string identity;   // the exact compiler and flags: part of every cache key and of the environment
  std::string isolation;  // how the compiler is isolated
  std::string weakness;   // what it could read but should not, and the remedy; empty if nothing
};

// The result of a device's screen of a compiled variant (stage 2).
struct ScreenVerdict {
  std::string reason = {};       // one line; empty if passed
  std::string diagnostics = {};  // what to change in the source
  bool passed() const { return reason.empty(); }
};

struct CompileFailure {
  Stage stage = Stage::compile;  // or screen
  std::string reason, diagnostics;
  bool late = false;                         // the compiler was killed at its deadline
  std::optional<HostFault> host_fault = {};  // not, or not surely, because of the source
};

}  // namespace cultivar
