// SPDX-License-Identifier: Apache-2.0
#include "engine/scaffold/seed_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cultivar {
namespace {

// The C++ type of an element: of a tensor without a dtype of its own, that of the workload.
std::string element_type(const TensorSpec& tensor, Target target) {
  if (!tensor.dtype) return target->thread_arguments ? "float" : "DTYPE";
  switch (*tensor.dtype) {
    case Dtype::f64:
      return "double";
    case Dtype::f32:
      return "float";
    case Dtype::f16:
      return target->f16;
    case Dtype::bf16:
      return target->bf16;
    case Dtype::e4m3:
      return target->e4m3;
    case Dtype::e5m2:
      return target->e5m2;
    case Dtype::i64:
      return "long long";
    case Dtype::i32:
      return "int";
    case Dtype::i16:
      return "short";
    case Dtype::i8:
      return "signed char";
    case Dtype::u64:
      return "unsigned long long";
    case Dtype::u32:
      return "unsigned";
    case Dtype::u16:
      return "unsigned short";
    case Dtype::u8:
      return "unsigned char";
  }
  return "float";
}

std::string parameter_type(const Parameter& parameter) {
  if (parameter.type == Dtype::f64) return "double";
  return is_floating(parameter.type) ? "float" : size_of(parameter.type) == 8 ? "long long" : "int";
}

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

}  // namespace

std::string seed_source(const Task& task, Target target, const std::string& name) {
  const bool by_threads = target->thread_arguments;
  std::vector<std::string> arguments, parameters;
  std::string shapes;
  for (const TensorSpec& tensor : task.tensors) {
    const bool input = tensor.role == Role::input;
    arguments.push_back(tensor.name);
    parameters.push_back(
        fmt::format("{}{}* {}", input ? "const " : "", element_type(tensor, target), tensor.name));
    shapes += fmt::format("//   {} [{}] ({})\n", tensor.name, fmt::join(tensor.shape, ", "),
                          input ? "input" : "output: every element must be written in every run");
  }
  for (const Dimension& dimension : task.dimensions) {
    arguments.push_back(dimension.name);
    parameters.push_back("int " + dimension.name);
  }
  for (const Parameter& parameter : task.parameters) {
    arguments.push_back(parameter.name);
    parameters.push_back(fmt::format("{} {}", parameter_type(parameter), parameter.name));
  }
  const std::string rows = task.rows.empty() ? "1" : task.rows.front();
  if (by_threads) {
    for (const char* own : {"thread", "threads"}) {
      arguments.emplace_back(own);
      parameters.push_back(fmt::format("int {}", own));
    }
  }
  const std::string manifest = fmt::format(
      "/*--- cultivar\nname: {}\ntask: {}\ntarget: {}\nabout: \"The idea of this seed, in one line.\"\n{}"
      "launch:\n  - kernel: {}\n{}    args: [{}]\n---*/\n\n",
      name, task.name, name_of(target), by_threads ? "requires: \"dtype == f32\"\n" : "specialize: [dtype]\n",
      task.name,
      by_threads ? "    threads: num_cores\n"
                 : fmt::format("    grid: [{}, 1, 1]\n    block: [256, 1, 1]\n", rows),
      fmt::join(arguments, ", "));
  const std::string comment = fmt::format(
      "// {}.\n// Tensors are contiguous, in the order of dimensions that is given here:\n{}"
      "// The format of this file: README.md of Cultivar's folder evaluators.\n",
      task.summary, shapes);
  const std::string loop =
      by_threads ? fmt::format("  for (long row = thread; row < {}; row += threads) {{\n", rows)
                 : fmt::format(
                       "  const long long row = blockIdx.x;\n  for (int i = threadIdx.x; i < {}; i += "
                       "256) {{\n",
                       elements_of_a_block(task, rows));
  return manifest + comment + (by_threads ? "" : "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n") +
         fmt::format(
             "\nextern \"C\" {}void {}({}) {{\n{}    // Compute the outputs of this row here.\n"
             "    (void)row;\n  }}\n}}\n",
             by_threads ? "" : "__global__ ", task.name, fmt::join(parameters, ", "), loop);
}

}  // namespace cultivar
