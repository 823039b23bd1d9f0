// SPDX-License-Identifier: Apache-2.0
#include "embedded/opencl_c_format.hpp"
#include "embedded/opencl_c_frame.hpp"
#include "embedded/opencl_c_seeds.hpp"
#include "evaluators/languages/c_family.hpp"
#include "evaluators/languages/opencl_c/compiler.hpp"

namespace cultivar {
namespace {

std::unique_ptr<Compiler> open(const CompilerOrder& order) {
  return std::make_unique<OpenclCompiler>(OpenclCompilerOptions{order.cache / "opencl"}, order.task);
}

// Besides the words of C: OpenCL's own, and its types.
bool is_word_of_opencl(std::string_view name) {
  constexpr std::string_view words =
      " kernel global local constant private read_only write_only read_write half uchar ushort uint ulong "
      "bool event_t sampler_t image2d_t image3d_t size_t ptrdiff_t ";
  return words.find(" " + std::string(name) + " ") != std::string_view::npos || c_family().reserves(name);
}

LanguageTraits made() {
  LanguageTraits row = c_family();
  row.name = "opencl_c";
  row.title = "OpenCL C";
  row.targets = {"opencl"};
  row.extension = ".cl";
  row.fence = "c";
  row.compiler = "the OpenCL compiler";
  row.definition = "__kernel";
  for (std::size_t i = 0; i < dtype_count; ++i) row.types[i] = opencl_type(static_cast<Dtype>(i));
  row.reserves = is_word_of_opencl;
  row.frame = opencl_c_frame::all[0].second;
  row.task_seeds = opencl_c_seeds::all;
  row.format = opencl_c_format::all[0];
  row.open = open;
  return row;
}

}  // namespace

Language opencl_c_language() {
  static const LanguageTraits row = made();
  return &row;
}

}  // namespace cultivar
