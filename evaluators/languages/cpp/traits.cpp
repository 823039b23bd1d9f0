// SPDX-License-Identifier: Apache-2.0
#include "embedded/cpp_format.hpp"
#include "embedded/cpp_frame.hpp"
#include "embedded/cpp_seeds.hpp"
#include "evaluators/languages/c_family.hpp"
#include "evaluators/languages/cpp/compiler.hpp"

namespace cultivar {
namespace {

std::unique_ptr<Compiler> open(const CompilerOrder& order) {
  return std::make_unique<CpuCompiler>(CpuCompilerOptions{order.cache / "cpu"});
}

LanguageTraits made() {
  LanguageTraits row = c_family();
  row.name = "cpp";
  row.title = "C++";
  row.targets = {"cpu"};
  row.extension = ".cpp";
  row.fence = "cpp";
  row.compiler = "the compiler";
  row.frame = cpp_frame::all[0].second;
  row.task_seeds = cpp_seeds::all;
  row.format = cpp_format::all[0];
  row.open = open;
  return row;
}

}  // namespace

Language cpp_language() {
  static const LanguageTraits row = made();
  return &row;
}

}  // namespace cultivar
