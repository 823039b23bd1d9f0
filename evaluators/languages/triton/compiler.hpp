// SPDX-License-Identifier: Apache-2.0
// Compiles variants in Triton with the user's own Triton, in a sandbox and without a GPU, to a cubin that
// needs no Triton: Triton makes PTX of them (cultivar_triton/build.py), and ptxas, in a process of its own,
// machine code of exactly the PTX that is screened.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "evaluators/languages/compiler.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

struct TritonCompilerOptions {
  std::filesystem::path cache;
  std::string python;                   // an interpreter with the package triton
  std::string architecture = "sm_90a";  // any that this Triton supports
  CodeLimits limits = {};
  std::size_t memory_bytes = std::size_t{12} << 30;  // of addresses, for one process: LLVM maps much
};

class TritonCompiler : public Compiler {  // thread-safe
 public:
  // Throws MissingError if the interpreter has no Triton, or Triton no ptxas.
  TritonCompiler(TritonCompilerOptions, const Task&);
  ~TritonCompiler() override;

  CompilerInfo info() const override;
  // Failures of stage screen: what cultivar_triton/check.py refuses, and what the screen of CUDA does. The
  // binary is a cubin; chosen: the shared memory of each kernel.
  tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                               double deadline_s) override;
  // PTX with counters, as for CUDA C++.
  Expected<Binary> compile_check_build(const Variant&, const std::vector<std::string>& macros,
                                       double deadline_s) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
