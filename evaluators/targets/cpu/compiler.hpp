// Compiles variants with the host compiler, inside a sandbox, into a content-addressed cache.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/targets/target.hpp"

namespace cultivar {

struct CpuCompilerOptions {
  std::filesystem::path cache;          // shared by processes: every file in it appears whole or not at all
  std::string program = {};             // empty: the first of c++, g++, clang++ in PATH
  std::vector<std::string> flags = {};  // besides the fixed ones: "-isystem/usr/include/eigen3"
  bool trusted = false;  // contenders: may have statics and call what they like, in the same cell
  std::size_t memory_bytes = std::size_t{4} << 30;  // of one compiler process
};

class CpuCompiler : public Compiler {  // thread-safe
 public:
  // Throws MissingError when there is no compiler.
  explicit CpuCompiler(CpuCompilerOptions);
  ~CpuCompiler() override;

  std::string identity() const override;
  // Stage compile: the compiler's words, or that it took too long or too much. Stage screen: see screen.hpp.
  tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                               double deadline_s) override;
  std::string isolation() const override;
  std::string weakness() const override;
  // Of the last calls: true when the binary came from the cache (for tests and reports).
  std::size_t compilations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
