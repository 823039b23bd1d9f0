// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/instruction_shares.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace cultivar {
namespace instruction_kinds {  // names of their own in a unity build
namespace {

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool has(const PtxTokens& modifiers, std::span<const std::string_view> names) {
  return std::ranges::any_of(modifiers, [&](const PtxToken& m) { return among(names, m.text); });
}

// ".shared", ".shared::cta", ".shared::cluster"
bool in_shared_memory(const PtxTokens& modifiers) {
  return std::ranges::any_of(modifiers, [](const PtxToken& m) { return m.text.starts_with(".shared"); });
}

// As PTX ISA 9 names them.
constexpr std::string_view kSpecial[] = {"ex2", "lg2",   "sin",  "cos", "tanh",
                                         "rcp", "rsqrt", "sqrt", "div", "rem"};
constexpr std::string_view kSums[] = {"add", "sub", "mul", "mad", "fma"};
constexpr std::string_view kInteger[] = {
    "mul24", "mad24", "sad",  "abs",  "neg",   "min",      "max",  "popc", "clz",  "bfind",
    "fns",   "brev",  "bfe",  "bfi",  "szext", "bmsk",     "dp4a", "dp2a", "addc", "subc",
    "madc",  "set",   "setp", "selp", "slct",  "and",      "or",   "xor",  "not",  "cnot",
    "lop3",  "shf",   "shl",  "shr",  "prmt",  "copysign", "testp"};
constexpr std::string_view kFloating[] = {".f16", ".f16x2", ".bf16", ".bf16x2", ".f32", ".f32x2", ".f64"};
constexpr std::string_view kAccesses[] = {"ld", "ldu", "st", "atom", "red", "prefetch", "prefetchu"};
constexpr std::string_view kMatrix[] = {"wmma", "wgmma", "tcgen05"}, kProducts[] = {".mma", ".mma_async"};
// Modifiers of cp: those that move nothing, and those that reach global memory.
constexpr std::string_view kWaits[] = {".wait_all", ".wait_group", ".commit_group", ".mbarrier"};
constexpr std::string_view kFar[] = {".global", ".reduce", ".prefetch"};
constexpr std::string_view kElsewhere[] = {".local", ".const"};

enum Kind { tensor, special, floating, convert, integer, global, shared, other, kinds };
constexpr std::array<const char*, other> kNames{"tensor_share",  "special_share", "float_share",
                                                "convert_share", "integer_share", "global_share",
                                                "shared_share"};

bool counted(std::string_view opcode, const PtxTokens& modifiers) {
  if (opcode == "mov" || opcode == "cvta") return false;
  return !((opcode == "ld" || opcode == "st") &&
           std::ranges::any_of(modifiers, [](const PtxToken& m) { return m.text.starts_with(".param"); }));
}

Kind kind_of(std::string_view opcode, const PtxTokens& modifiers) {
  if (opcode == "mma" || (among(kMatrix, opcode) && has(modifiers, kProducts))) return tensor;
  if (among(kSpecial, opcode)) return special;
  if (among(kSums, opcode)) return has(modifiers, kFloating) ? floating : integer;
  if (opcode == "cvt") return convert;
  if (among(kInteger, opcode)) return integer;
  if (opcode == "ldmatrix" || opcode == "stmatrix") return shared;
  if (opcode == "cp") {  // waits and commits move nothing
    const bool waits = has(modifiers, kWaits);
    return waits ? other : has(modifiers, kFar) ? global : shared;
  }
  if (opcode == "multimem") return global;
  if (!among(kAccesses, opcode)) return other;
  if (has(modifiers, kElsewhere)) return other;
  return in_shared_memory(modifiers) ? shared : global;
}

}  // namespace
}  // namespace instruction_kinds

std::map<std::string, double> instruction_shares(const Ptx& ptx, const std::vector<std::string>& kernels) {
  using namespace instruction_kinds;
  std::array<std::size_t, kinds> counts{};
  std::size_t all = 0;
  bool mine = false;
  for (const PtxStatement& s : ptx.statements) {
    if (s.function_head()) {
      const bool kernel = std::ranges::any_of(s.tokens, [](const PtxToken& t) { return t.is(".entry"); });
      mine = !kernel || std::ranges::find(kernels, s.function_name()) != kernels.end();
    }
    if (s.directive() || !mine) continue;
    const PtxTokens modifiers = s.modifiers();
    if (!counted(s.opcode(), modifiers)) continue;
    ++counts[kind_of(s.opcode(), modifiers)];
    ++all;
  }
  std::map<std::string, double> shares;
  for (std::size_t i = 0; all > 0 && i < kNames.size(); ++i)
    shares[kNames[i]] = std::ceil(100.0 * static_cast<double>(counts[i]) / static_cast<double>(all));
  return shares;
}

}  // namespace cultivar
