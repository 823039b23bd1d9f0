// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of Triton: a compiler whose cache outlives them, and the kernels below
// tests/kernels/triton, which are variants of softmax. Needs no GPU; a suite with `needs_triton()` is skipped
// where no Python has Triton.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/languages/triton/compiler.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/interpreter.hpp"
#include "support/pytorch.hpp"

namespace cultivar::triton_test {

namespace fs = std::filesystem;

inline const fs::path source_folder = CULTIVAR_SOURCE_DIR;
inline const fs::path kernel_folder = source_folder / "tests/kernels/triton";
inline const fs::path cache_folder = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";

// The usual interpreter, or that of tests/install_pytorch.sh; an Error says why neither has Triton.
inline const Expected<Interpreter>& python() {
  static const Expected<Interpreter> found = []() -> Expected<Interpreter> {
    auto usual = find_interpreter(default_python(), PythonNeeds::triton);
    if (usual || testing::python_with_torch_2().empty()) return usual;
    return find_interpreter(testing::python_with_torch_2(), PythonNeeds::triton);
  }();
  return found;
}
inline boost::test_tools::assertion_result triton_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(python().has_value());
  if (!python()) here.message() << python().error().message;
  return here;
}
inline auto needs_triton() {
  return boost::unit_test::precondition(triton_is_here);
}

inline const Task& task_named(const std::string& name) {
  static std::map<std::string, Task> tasks;
  const auto found = tasks.find(name);
  return found != tasks.end()
             ? found->second
             : tasks.emplace(name, load_task(source_folder / "configs/tasks" / name)).first->second;
}

inline TritonCompilerOptions options() {
  return {.cache = cache_folder, .python = python()->executable};
}
inline TritonCompiler& compiler_for(const std::string& task) {
  static std::map<std::string, std::unique_ptr<TritonCompiler>> compilers;
  auto& compiler = compilers[task];
  if (!compiler) compiler = std::make_unique<TritonCompiler>(options(), task_named(task));
  return *compiler;
}

inline Variant variant_of(const std::string& source, const std::string& task = "softmax",
                          const Configuration& configuration = {}) {
  auto variant = make_variant(source, task_named(task), configuration);
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().text()));
  return *std::move(variant);
}
inline Variant kernel(const std::string& file) {
  return variant_of(read_file(kernel_folder / file).value());
}
inline Variant seed(const std::string& task, const std::string& name,
                    const Configuration& configuration = {}) {
  return variant_of(read_file(source_folder / "configs/tasks" / task / "seeds" / (name + ".py")).value(),
                    task, configuration);
}

inline std::vector<std::string> macros_for(const Variant& variant, std::map<std::string, double> values,
                                           Dtype dtype = Dtype::bf16) {
  Workload workload;
  workload.name = "test";
  workload.dtype = dtype;
  workload.values = {values.begin(), values.end()};
  return macros(variant, task_named(variant.manifest.task), workload);
}
inline std::vector<std::string> macros_for(const Variant& variant) {
  return macros_for(variant, {{"R", 64}, {"C", 512}}, Dtype::f32);
}

inline tl::expected<Binary, CompileFailure> compile(const Variant& variant, double deadline_s = 120.0) {
  return compiler_for(variant.manifest.task).compile(variant, macros_for(variant), deadline_s);
}
inline CompileFailure failure_of(const Variant& variant, double deadline_s = 120.0) {
  const auto binary = compile(variant, deadline_s);
  BOOST_REQUIRE_MESSAGE(!binary, variant.manifest.name + " was not refused");
  return binary.error();
}
inline Cubin cubin_of(const Binary& binary) {
  const std::string bytes = read_file(binary.path).value();
  auto cubin = read_cubin(std::as_bytes(std::span(bytes)));
  BOOST_REQUIRE_MESSAGE(cubin, (cubin ? "" : cubin.error().message));
  return *std::move(cubin);
}

// A variant of softmax with this text behind the imports.
inline std::string softmax_source(const std::string& code, const std::string& manifest = "") {
  return "\"\"\"--- cultivar\nname: tried\ntask: softmax\ntarget: cuda\nlanguage: triton\n"
         "tunables:\n  BLOCK: {values: [512, 1024], default: 1024}\nspecialize: [dtype]\n" +
         manifest +
         "launch:\n  - kernel: rows\n    grid: [R, 1, 1]\n    args: [x, y, C]\n---\"\"\"\n"
         "import triton\nimport triton.language as tl\n\n" +
         code;
}

}  // namespace cultivar::triton_test
