// Compiles variants with NVRTC, straight to the machine code of one architecture, in a sandboxed process
// each, into a content-addressed cache.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/targets/cuda/screen.hpp"
#include "evaluators/targets/target.hpp"

namespace cultivar {

struct CudaCompilerOptions {
  std::filesystem::path cache;          // shared by processes: every file in it appears whole or not at all
  std::string architecture = "sm_90a";  // any that this NVRTC knows
  std::filesystem::path library = {};   // libnvrtc.so.N; empty: see find_cuda_toolkit
  std::filesystem::path program = {};   // cultivar-nvrtc; empty: beside the running program
  std::vector<std::string> flags = {};  // besides the fixed ones
  bool trusted = false;                 // contenders: the screen lets them keep statics
  CodeLimits limits = {};
  std::size_t memory_bytes = std::size_t{8} << 30;  // of one compiler process
  // What keeps NVRTC from the user's files: the best there is. Fewer for tests, as on a machine without them.
  enum class Walls { bubblewrap, landlock, none } best_walls = Walls::bubblewrap;
};

class CudaCompiler : public Compiler {  // thread-safe
 public:
  // Throws MissingError when there is no NVRTC, or it does not know the architecture.
  explicit CudaCompiler(CudaCompilerOptions);
  ~CudaCompiler() override;

  std::string identity() const override;
  // Stage compile: NVRTC's words, or that it took too long or too much. Stage screen: see screen.hpp.
  // The binary is a cubin. Resources are the largest of any kernel of the plan: registers, spill_bytes,
  // stack_bytes, shared_bytes (static), constant_bytes, text_bytes, barriers.
  tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                               double deadline_s) override;
  std::string isolation() const override;
  std::string weakness() const override;
  // Of the last calls: how often the compiler ran, rather than the cache (for tests and reports).
  std::size_t compilations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
