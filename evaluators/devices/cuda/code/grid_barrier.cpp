// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <optional>

#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/devices/cuda/code/screen.hpp"

namespace cultivar {
namespace {

// What a register may hold; `plain`: nothing related to the barrier.
enum Content : unsigned {
  plain = 0,
  low = 1,  // the halves of the address, the high half shifted into place, both combined
  high = 2,
  shifted = 4,
  workspace = 8,
  barrier = 16,  // the address of the barrier word, 4 bytes into the workspace
  word = 32,
  flipped = 64,  // one read of the word compared with another
  open = 128     // a predicate: the barrier has opened
};

std::string spelled(const PtxTokens& operand) {
  std::string text;
  for (const PtxToken& t : operand) text += t.text;
  return text;
}

bool one_name(const PtxTokens& operand) {
  return operand.size() == 1 && operand.front().kind == PtxToken::Kind::name;
}

class Barrier {
 public:
  explicit Barrier(const Ptx& ptx) : ptx_(ptx) {
    ptx.walk([this](const auto& body) { settle(body); });
  }
  const std::string& beyond() const { return beyond_; }

 private:
  unsigned held(std::string_view name) const {
    const auto found = holds_.find(name);
    return found == holds_.end() ? plain : found->second;
  }
  unsigned held(const PtxTokens& operand) const {
    unsigned all = plain;
    for (const PtxToken& t : operand)
      if (t.kind == PtxToken::Kind::name) all |= held(t.text);
    return all;
  }

  void settle(const std::vector<const PtxStatement*>& body) {
    holds_ = {{"%envreg1", high}, {"%envreg2", low}};
    for (bool grew = true; grew && beyond_.empty();) {
      grew = false;
      for (const PtxStatement* s : body) {
        if ((held(s->tokens) | held(s->predicate)) == plain) continue;
        const std::optional<unsigned> result = result_of(*s);
        if (!result) {
          beyond_ = fmt::format("{}'{}'", ptx_.place_of(*s), s->spelled_opcode());
          return;
        }
        if (*result == plain) continue;
        unsigned& there = holds_[s->operands().front().front().text];
        grew = grew || (there | *result) != there;
        there |= *result;
      }
    }
  }

  // What the first operand holds after this statement; nullopt if the statement is not part of a barrier.
  std::optional<unsigned> result_of(const PtxStatement& s) const {
    const std::vector<PtxTokens> operands = s.operands();
    const std::string opcode = s.spelled_opcode();
    if (opcode == "bra" || opcode == "bra.uni")
      return (held(s.predicate) & ~unsigned{open}) == 0 ? std::optional<unsigned>(plain) : std::nullopt;
    if (held(s.predicate) != plain || operands.size() < 2 || !one_name(operands[0])) return std::nullopt;
    const auto is = [&](std::size_t i, unsigned what) {
      return i < operands.size() && held(operands[i]) == what && (what == plain || one_name(operands[i]));
    };
    const auto number = [&](std::size_t i, std::initializer_list<std::string_view> allowed) {
      for (const std::string_view text : allowed)
        if (i < operands.size() && spelled(operands[i]) == text) return true;
      return false;
    };
    const auto any_of = [&](std::initializer_list<std::string_view> allowed) {
      for (const std::string_view text : allowed)
        if (opcode == text) return true;
      return false;
    };
    const auto at_the_word = [&](std::size_t i) {
      PtxTokens address = operands[i];
      if (address.size() < 3 || !address.front().is("[") || !address.back().is("]")) return false;
      address.erase(address.begin());
      address.pop_back();
      return (one_name(address) && held(address) == barrier) ||
             (held(address) == workspace && spelled(address).ends_with("+4") && address.size() == 3);
    };
    if (any_of({"mov.u32", "mov.b32", "mov.s32", "mov.u64", "mov.b64", "mov.s64"})) {
      const PtxTokens& from = operands[1];
      if (one_name(from) || held(from) == plain) return held(from);
      if (opcode == "mov.b64" && from.size() == 5 && from[0].is("{") && from[2].is(",") &&
          held(from[1].text) == low && held(from[3].text) == high)
        return workspace;
    }
    if (opcode == "cvt.u64.u32" && (is(1, low) || is(1, high) || is(1, plain))) return held(operands[1]);
    if (opcode == "shl.b64" && is(1, high) && number(2, {"32"})) return shifted;
    if (opcode == "or.b64" && ((is(1, low) && is(2, shifted)) || (is(1, shifted) && is(2, low))))
      return workspace;
    if (opcode == "bfi.b64" && is(1, high) && is(2, low) && number(3, {"32"}) && number(4, {"32"}))
      return workspace;
    if (any_of({"setp.eq.s64", "setp.ne.s64", "setp.eq.u64", "setp.ne.u64", "setp.eq.b64", "setp.ne.b64"}) &&
        is(1, workspace) && number(2, {"0"}))
      return plain;  // is_valid()
    if (any_of({"add.s64", "add.u64"}) && is(1, workspace) && number(2, {"4"})) return barrier;
    if (opcode == "atom.add.release.gpu.u32" && at_the_word(1) && is(2, plain)) return word;
    if (opcode == "ld.acquire.gpu.u32" && at_the_word(1)) return word;
    if (opcode == "xor.b32" && is(1, word) && is(2, word)) return flipped;
    if (opcode == "and.b32" && is(1, flipped) && number(2, {"-2147483648"})) return flipped;
    if (any_of({"setp.gt.s32", "setp.lt.s32", "setp.eq.s32", "setp.ne.s32"}) && is(1, flipped) &&
        number(2, {"0", "-1"}))
      return open;
    return std::nullopt;
  }

  const Ptx& ptx_;
  std::map<std::string_view, unsigned> holds_;  // for one function
  std::string beyond_;
};

}  // namespace

bool leads_to_grid_barrier(std::string_view special_register) {
  return special_register == "%envreg1" || special_register == "%envreg2";
}

std::string beyond_grid_barrier(const Ptx& ptx) {
  return Barrier(ptx).beyond();
}

}  // namespace cultivar
