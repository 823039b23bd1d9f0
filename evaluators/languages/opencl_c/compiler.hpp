// SPDX-License-Identifier: Apache-2.0
// Compiles OpenCL C with the driver of this machine's first OpenCL device, in a sandbox, into a
// content-addressed cache: what is kept is the program that the driver hands out, which it loads again in a
// cell.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "evaluators/languages/compiler.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// The build options of every kernel, and of exports.
std::string_view opencl_flags();

struct OpenclCompilerOptions {
  std::filesystem::path cache;
  std::filesystem::path program = {};  // cultivar-opencl; empty: beside the running program
};

class OpenclCompiler : public Compiler {  // thread-safe
 public:
  // Throws MissingError if this build has no OpenCL or the machine no device. Copies the task.
  OpenclCompiler(OpenclCompilerOptions, const Task&);
  ~OpenclCompiler() override;
  CompilerInfo info() const override;
  // Failures of stage compile: the compiler's messages, parameters that do not match `args`, a timeout; of
  // stage screen: devices/opencl/code/screen.hpp.
  tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                               double deadline_s) override;

  // Where the driver is PoCL; see check_build.hpp.
  Expected<Binary> compile_check_build(const Variant&, const std::vector<std::string>& macros,
                                       double deadline_s) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the parameters of kernels, as the OpenCL compiler reports them, match the manifest's `args`.

// The macro DTYPE, and the names of types in messages.
std::string_view opencl_type(Dtype);

// `reported`: {"NAME": [{"type": "float*", "space": "global"}, ...], ...}, as cultivar-opencl writes it. One
// line; empty: they match.
std::string parameter_trouble(const Manifest&, const Task&, const std::string& reported);

}  // namespace cultivar
