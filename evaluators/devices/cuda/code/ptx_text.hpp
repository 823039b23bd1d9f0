// SPDX-License-Identifier: Apache-2.0
// Parses PTX as ptxas reads it: blanks have no meaning, a comment is a blank, '[' and '{' end an opcode.
// Stricter than ptxas on purpose: anything that NVRTC does not write and that could hide an instruction is an
// Error and never skipped.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

struct PtxToken {
  enum class Kind { name, modifier, number, string, sign };  // modifier: with its dot, ".global"
  Kind kind = Kind::sign;
  std::string_view text;  // into the PTX
  bool is(std::string_view what) const { return text == what; }
};
using PtxTokens = std::vector<PtxToken>;

// An instruction without its predicate, or a directive: `.global .u32 t[2] = {1, 2}`, the head of a function.
struct PtxStatement {
  PtxTokens tokens;             // without the terminating semicolon or brace
  std::string_view predicate;   // the name after '@'; empty if none
  unsigned file = 0, line = 0;  // from the preceding `.loc`; 0 if there is none

  bool directive() const { return tokens.front().kind == PtxToken::Kind::modifier; }
  bool function_head() const;
  std::string_view function_name() const;  // of the head of a function; empty if it has none
  std::string_view opcode() const { return tokens.front().text; }  // "ld"
  PtxTokens modifiers() const;
  std::string spelled_opcode() const;  // "ld.global.f32"
  // Split at commas that are not inside brackets.
  std::vector<PtxTokens> operands() const;
};

struct Ptx {
  std::vector<PtxStatement> statements;        // in order; without braces, labels and debug data
  std::map<unsigned, std::string_view> files;  // by the number used in `.loc`: names without folders

  // For example "variant.cu"; empty if unknown.
  std::string_view file_of(const PtxStatement& s) const {
    const auto found = files.find(s.file);
    return found == files.end() ? std::string_view() : found->second;
  }
  // For example "line 4: " or "tile.cuh:4: "; empty if unknown.
  std::string place_of(const PtxStatement& s) const;
  // Calls with groups of statements, in order: the instructions of each function, because registers are local
  // to a function, and the statements between functions.
  void walk(const std::function<void(const std::vector<const PtxStatement*>&)>& body,
            const std::function<void(const PtxStatement&)>& directive = {}) const;
};

// The result refers to `text`. An Error means that ptxas might read the text differently.
Expected<Ptx> read_ptx(std::string_view text);

// By a name, a register's or a variable's: the names whose addresses it may hold.
using PtxNames = std::set<std::string_view>;
using PtxHolds = std::map<std::string_view, PtxNames>;
PtxNames held(const PtxHolds&, const PtxTokens&);  // by all of the tokens that are names

// What a kernel consists of: the shares of instructions of each kind in the PTX of these kernels and of the
// functions that are not inlined, in percent, rounded up, so that one instruction gives at least 1. Each
// instruction counts once, however often it runs. Not counted: moves and reads of parameters, which ptxas
// mostly removes.
// - tensor_share: mma, wmma.mma, wgmma.mma_async, tcgen05.mma;
// - special_share: ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt, and divisions, which use rcp;
// - float_share: floating-point additions, multiplications and multiply-adds, also of pairs;
// - convert_share: cvt;
// - integer_share: other arithmetic: integers, addresses, logic, shifts, comparisons, selections, min, max;
// - global_share: accesses to global memory, also by generic addresses, and copies between it and shared
//   memory (cp.async, cp.async.bulk);
// - shared_share: accesses to shared memory, ldmatrix, stmatrix.
// The others (branches, barriers, exchanges within a warp, local and constant memory) are only part of the
// total. Empty if there are no instructions.
std::map<std::string, double> instruction_shares(const Ptx&, const std::vector<std::string>& kernels);

}  // namespace cultivar
