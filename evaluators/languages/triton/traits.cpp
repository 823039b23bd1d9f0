// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "embedded/triton_format.hpp"
#include "embedded/triton_frame.hpp"
#include "embedded/triton_seeds.hpp"
#include "evaluators/languages/triton/compiler.hpp"
#include "evaluators/languages/triton/order.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/target/language.hpp"

namespace cultivar {
namespace {

std::unique_ptr<Compiler> open(const CompilerOrder& order) {
  TritonCompilerOptions options{order.cache, order.python};
  options.limits = order.task.limits;
  if (!order.architecture.empty()) options.architecture = order.architecture;
  return std::make_unique<TritonCompiler>(options, order.task);
}

Expected<std::string> compiler_of(const std::string& python) {
  const auto found = find_interpreter(python, PythonNeeds::triton);
  if (!found) return tl::make_unexpected(found.error());
  return fmt::format("Triton {}, Python {} ({})", found->triton, found->version, found->executable);
}

// Words of Python, and what a variant imports Triton as.
bool is_word(std::string_view name) {
  constexpr std::string_view words =
      " False None True and as assert async await break class continue def del elif else except finally for "
      "from global if import in is lambda nonlocal not or pass raise return try while with yield tl triton ";
  return words.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

std::string number(Dtype type, double value) {
  if (!is_floating(type)) return fmt::format("{}", static_cast<std::int64_t>(value));
  std::string text = type == Dtype::f64 ? fmt::format("{}", value)
                                        : fmt::format("{}", static_cast<float>(round_to(type, value)));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// A block of Triton's has the threads of its warps.
void derive(LaunchExpressions& keys) {
  const auto warps = keys.find("num_warps");
  const std::string text = warps == keys.end() ? "4" : warps->second.front().text();
  keys["block"] = {Expression::parse(fmt::format("32 * ({})", text)).value(), Expression::constant(1),
                   Expression::constant(1)};
}

}  // namespace

Language triton_language() {
  static const LanguageTraits row{.name = "triton",
                                  .title = "Triton",
                                  .targets = {"cuda"},
                                  .extension = ".py",
                                  .shares_extension = true,
                                  .fence = "python",
                                  .compiler = "Triton",
                                  .comments = {"#", "\"\"\"", "\"\"\""},
                                  .headers = false,
                                  .launch_keys = {{.name = "num_warps", .fallback = "4", .most = {32}},
                                                  {.name = "num_stages", .fallback = "3", .most = {16}},
                                                  {.name = "maxnreg", .least = 24, .most = {255}}},
                                  .derived_keys = {"block", "shared", "cluster"},
                                  .derive = derive,
                                  .definition = "@triton.jit def",
                                  .types = triton_types(),
                                  .literal = number,
                                  .reserves = is_word,
                                  .frame = triton_frame::all[0].second,
                                  .task_seeds = triton_seeds::all,
                                  .format = triton_format::all[0],
                                  .open = open,
                                  .compiler_of = compiler_of};
  return &row;
}

}  // namespace cultivar
