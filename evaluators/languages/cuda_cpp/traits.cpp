// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cuda_cpp/traits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "embedded/cuda_cpp_format.hpp"
#include "embedded/cuda_cpp_seeds.hpp"
#include "evaluators/languages/c_family.hpp"
#include "evaluators/languages/cuda_cpp/compiler.hpp"

namespace cultivar {
namespace {

// How many elements of an output one block computes: a block for each index of the first row dimension.
std::string elements_of_a_block(const Task& task, const std::string& row) {
  const TensorSpec* output = nullptr;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role == Role::input) continue;
    if (output == nullptr) output = &tensor;
    if (std::ranges::find(tensor.shape, row) == tensor.shape.end()) continue;
    output = &tensor;
    break;
  }
  std::vector<std::string> shape = output != nullptr ? output->shape : std::vector<std::string>{};
  std::erase(shape, row);
  return shape.empty() ? "1" : fmt::format("{}", fmt::join(shape, " * "));
}

std::string new_seed(const Task& task, Target target, const std::string& name) {
  const SeedFrame frame = seed_frame(task, *cuda_cpp_language(), "DTYPE");
  return seed_source(
      task, *cuda_cpp_language(), target, name, frame, "specialize: [dtype]\n",
      fmt::format("    grid: [{}, 1, 1]\n    block: [256, 1, 1]\n", frame.rows),
      "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n", cuda_cpp_language()->definition,
      fmt::format("  const long long row = blockIdx.x;\n  for (int i = threadIdx.x; i < {}; i += 256) {{\n",
                  elements_of_a_block(task, frame.rows)));
}

std::unique_ptr<Compiler> open(const CompilerOrder& order) {
  CudaCompilerOptions options{order.cache / "cuda"};
  options.limits = order.task.limits;
  if (!order.architecture.empty()) options.architecture = order.architecture;
  return std::make_unique<CudaCompiler>(options);
}

LanguageTraits made() {
  LanguageTraits row = c_family();
  row.name = "cuda_cpp";
  row.title = "CUDA C++";
  row.targets = {"cuda"};
  row.extension = ".cu";
  row.fence = "cuda";
  row.compiler = "NVRTC";
  row.definition = "extern \"C\" __global__";
  const auto type = [&](Dtype dtype) -> std::string_view& {
    return row.types.at(static_cast<std::size_t>(dtype));
  };
  type(Dtype::f16) = "__half";
  type(Dtype::bf16) = "__nv_bfloat16";
  type(Dtype::e4m3) = "__nv_fp8_e4m3";
  type(Dtype::e5m2) = "__nv_fp8_e5m2";
  row.new_seed = new_seed;
  row.task_seeds = cuda_cpp_seeds::all;
  row.format = cuda_cpp_format::all[0];
  row.open = open;
  return row;
}

}  // namespace

Language cuda_cpp_language() {
  static const LanguageTraits row = made();
  return &row;
}

}  // namespace cultivar
