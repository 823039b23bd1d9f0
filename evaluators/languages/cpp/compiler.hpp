// SPDX-License-Identifier: Apache-2.0
// Compiles variants with the host compiler, in a sandbox, into a content-addressed cache.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/languages/compiler.hpp"

namespace cultivar {

// The options with which an exported kernel is compiled to an object, as CMake list items.
std::string_view flags_of_exports();

struct CpuCompilerOptions {
  std::filesystem::path cache;  // may be shared by processes: every file in it is written atomically
  std::string program = {};     // empty: the first of c++, g++, clang++ found in PATH
  std::size_t memory_bytes = std::size_t{4} << 30;  // limit for one compiler process
  bool own_code =
      false;  // Cultivar's, which is exported nowhere and may have code for several instruction sets
};

class CpuCompiler : public Compiler {  // thread-safe
 public:
  // Throws MissingError if no compiler is found.
  explicit CpuCompiler(CpuCompilerOptions);
  ~CpuCompiler() override;

  CompilerInfo info() const override;
  // Failures of stage compile: the compiler's messages, a timeout, or an exceeded limit. Of stage screen: see
  // screen.hpp.
  tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                               double deadline_s) override;
  Expected<Binary> compile_overflow_build(const Variant&, const std::vector<std::string>& macros,
                                          double deadline_s) override;
  Expected<Binary> compile_check_build(const Variant&, const std::vector<std::string>& macros,
                                       double deadline_s) override;
  // Statistics of the calls so far, for tests and reports: compilations that were not cache hits.
  std::size_t compilations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
