// SPDX-License-Identifier: Apache-2.0
#include "toy/language/toy_language.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "evaluators/languages/compiler.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar::toy {
namespace {

constexpr std::array<std::string_view, 7> kInstructions{"load", "max", "sub", "exp", "sum", "div", "store"};

// "kernel NAME" and then instructions, parted by blanks.
class ToyCompiler : public Compiler {
 public:
  explicit ToyCompiler(std::filesystem::path cache) : cache_(std::move(cache)) {}
  CompilerInfo info() const override { return {"toy assembler 1", "it only reads words", {}}; }

  tl::expected<Binary, CompileFailure> compile(const Variant& variant, const std::vector<std::string>& macros,
                                               double) override {
    std::istringstream in(variant.source.substr(variant.source.find("---*)") + 5));
    std::string word, program;
    in >> word >> word;
    double count = 0;
    while (in >> word) {
      if (std::ranges::find(kInstructions, word) == kInstructions.end())
        return tl::make_unexpected(
            CompileFailure{Stage::compile, fmt::format("there is no instruction '{}'", word),
                           fmt::format("There are: {}.\n", fmt::join(kInstructions, ", "))});
      program += word + " ";
      ++count;
    }
    Binary binary{cache_ / "toy" / (sha256_hex(program) + ".bin"),
                  sha256_hex(program),
                  macros,
                  {{{"instructions", count}}},
                  {}};
    if (const auto written = write_atomically(binary.path, program); !written)
      return tl::make_unexpected(CompileFailure{Stage::compile, written.error().message, {}});
    return binary;
  }

 private:
  std::filesystem::path cache_;
};

std::unique_ptr<Compiler> open(const CompilerOrder& order) {
  return std::make_unique<ToyCompiler>(order.cache);
}

bool is_instruction(std::string_view name) {
  return std::ranges::find(kInstructions, name) != kInstructions.end();
}

std::string number(Dtype, double value) {
  return fmt::format("{}", value);
}

constexpr std::string_view kFrame =
    "(*--- cultivar\nname: {{name}}\ntask: {{task}}\ntarget: {{target}}\nlaunch:\n  - kernel: {{task}}\n"
    "    lanes: 1\n    args: [{{arguments}}]\n---*)\n{{shapes}}kernel {{task}}\nload store\n";

}  // namespace

Language toy_language() {
  static const LanguageTraits row{.name = "toy_words",
                                  .title = "toy words",
                                  .targets = {"toy"},
                                  .extension = ".toy",
                                  .fence = "",
                                  .compiler = "the assembler",
                                  .comments = {";", "(*", "*)"},
                                  .headers = false,
                                  .definition = "kernel",
                                  .literal = number,
                                  .reserves = is_instruction,
                                  .frame = kFrame,
                                  .open = open};
  return &row;
}

}  // namespace cultivar::toy
