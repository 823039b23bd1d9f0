// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cpp/traits.hpp"

#include <fmt/format.h>

#include "embedded/cpp_format.hpp"
#include "embedded/cpp_seeds.hpp"
#include "evaluators/languages/c_family.hpp"
#include "evaluators/languages/cpp/compiler.hpp"

namespace cultivar {
namespace {

std::string new_seed(const Task& task, Target target, const std::string& name) {
  SeedFrame frame = seed_frame(task, *cpp_language(), "float");
  for (const char* own : {"thread", "threads"}) {
    frame.arguments.emplace_back(own);
    frame.parameters.push_back(fmt::format("int {}", own));
  }
  return seed_source(task, *cpp_language(), target, name, frame, "requires: \"dtype == f32\"\n",
                     "    threads: num_cores\n", "", cpp_language()->definition,
                     fmt::format("  for (long row = thread; row < {}; row += threads) {{\n", frame.rows));
}

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
  row.new_seed = new_seed;
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
