// SPDX-License-Identifier: Apache-2.0
// Compiles variants with NVRTC, directly to the machine code of one architecture, each in a sandboxed
// process, into a content-addressed cache.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/code/screen.hpp"
#include "evaluators/languages/compiler.hpp"

namespace cultivar {

struct CudaCompilerOptions {
  std::filesystem::path cache;          // may be shared by processes: every file in it is written atomically
  std::string architecture = "sm_90a";  // any architecture that this NVRTC supports
  std::filesystem::path library = {};   // libnvrtc.so.N; empty: see find_cuda_toolkit
  std::filesystem::path program = {};   // cultivar-nvrtc; empty: in the folder of the running program
  std::vector<std::string> flags = {};  // in addition to the fixed ones
  bool trusted = false;                 // for the judge's own kernels: the screen allows statics
  CodeLimits limits = {};
  std::size_t memory_bytes = std::size_t{8} << 30;  // limit for one compiler process
  // What isolates NVRTC from the user's files: the strongest available. Tests select weaker isolation, as on
  // machines that lack the stronger kinds.
  enum class Walls { bubblewrap, landlock, none } best_walls = Walls::bubblewrap;
};

class CudaCompiler : public Compiler {  // thread-safe
 public:
  // Throws MissingError if NVRTC is missing or does not support the architecture.
  explicit CudaCompiler(CudaCompilerOptions);
  ~CudaCompiler() override;

  CompilerInfo info() const override;
  // Failures of stage compile: NVRTC's messages, a timeout, or an exceeded limit. Of stage screen: see
  // screen.hpp. The binary is a cubin. Each resource is the maximum over the kernels of the plan: registers,
  // spill_bytes, stack_bytes, shared_bytes (static), constant_bytes, text_bytes, barriers. The shares are
  // those of ptx_text.hpp.
  tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                               double deadline_s) override;
  // PTX with counters (ptx_coverage.hpp), which the driver translates when it is loaded.
  Expected<Binary> compile_check_build(const Variant&, const std::vector<std::string>& macros,
                                       double deadline_s) override;
  // Statistics of the calls so far, for tests and reports: compilations that were not cache hits.
  std::size_t compilations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
