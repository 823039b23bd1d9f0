// PTX as ptxas reads it, taken apart: blanks mean nothing, a comment is a blank, '[' and '{' end an opcode.
// Stricter than ptxas on purpose: what NVRTC does not write and what could hide an instruction is an Error,
// never passed over.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/error.hpp"

namespace cultivar {

struct PtxToken {
  enum class Kind { name, modifier, number, string, sign };  // modifier: with its dot, ".global"
  Kind kind = Kind::sign;
  std::string_view text;  // into the PTX
  bool is(std::string_view what) const { return text == what; }
};
using PtxTokens = std::vector<PtxToken>;

// An instruction without its predicate, or a directive: `.global .u32 t[2] = {1, 2}`, a function's head.
struct PtxStatement {
  PtxTokens tokens;             // without the semicolon or the brace that ends it
  std::string_view predicate;   // the name after '@'; empty: none
  unsigned file = 0, line = 0;  // by the last `.loc`; 0: none came before

  bool directive() const { return tokens.front().kind == PtxToken::Kind::modifier; }
  bool function_head() const;
  std::string_view opcode() const { return tokens.front().text; }  // "ld"
  PtxTokens modifiers() const;
  std::string spelled_opcode() const;  // "ld.global.f32"
  // Split at the commas that are not within brackets.
  std::vector<PtxTokens> operands() const;
};

struct Ptx {
  std::vector<PtxStatement> statements;        // in order; braces, labels and debug data are left out
  std::map<unsigned, std::string_view> files;  // by number in `.loc`: names without their folders

  // "variant.cu"; empty: not named.
  std::string_view file_of(const PtxStatement& s) const {
    const auto found = files.find(s.file);
    return found == files.end() ? std::string_view() : found->second;
  }
  // "line 4: ", "tile.cuh:4: "; empty: not known.
  std::string place_of(const PtxStatement& s) const;
  // In order: the instructions of one function after the other, because registers are a function's own, and
  // what else is said between them.
  void walk(const std::function<void(const std::vector<const PtxStatement*>&)>& body,
            const std::function<void(const PtxStatement&)>& directive = {}) const;
};

// The result refers to `text`. Error: what ptxas might read otherwise than we do.
Expected<Ptx> read_ptx(std::string_view text);

}  // namespace cultivar
