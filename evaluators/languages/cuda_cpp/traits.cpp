// SPDX-License-Identifier: Apache-2.0
#include "embedded/cuda_cpp_format.hpp"
#include "embedded/cuda_cpp_frame.hpp"
#include "embedded/cuda_cpp_seeds.hpp"
#include "evaluators/languages/c_family.hpp"
#include "evaluators/languages/cuda_cpp/compiler.hpp"

namespace cultivar {
namespace {

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
  row.frame = cuda_cpp_frame::all[0].second;
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
