// SPDX-License-Identifier: Apache-2.0
// Determines from the PTX which variables the code may write. The rule is narrow, so that no candidate can
// launder an address: it may be copied, offset by a value that is no such address, selected, and used as the
// address of a load. Any other use (a store, an atomic, a call, a comparison, a shift, an unknown
// instruction) counts as a write. The analysis ignores statement order, so control flow does not matter. An
// address in constant memory that belongs to no named variable (cvta.const of a number) could be any
// variable's and counts as such.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/devices/cuda/code/screen.hpp"

namespace cultivar {
namespace {

using Kind = PtxToken::Kind;

constexpr std::string_view constant_memory = "constant memory";

// `name` or `name + 4`, the second within brackets when `address`; empty: anything else.
std::string_view plain_name(PtxTokens operand, bool address) {
  if (address) {
    if (operand.size() < 3 || !operand.front().is("[") || !operand.back().is("]")) return {};
    operand.erase(operand.begin());
    operand.pop_back();
  }
  if (operand.empty() || operand.front().kind != Kind::name) return {};
  for (std::size_t i = 1; i < operand.size(); ++i)
    if (operand[i].kind != Kind::number && !operand[i].is("+") && !operand[i].is("-")) return {};
  return operand.front().text;
}

bool all_of(const PtxTokens& modifiers, std::initializer_list<std::string_view> allowed) {
  return std::all_of(modifiers.begin(), modifiers.end(), [&](const PtxToken& m) {
    return std::find(allowed.begin(), allowed.end(), m.text) != allowed.end();
  });
}

// The operands that may hold an address and pass it to the first one; empty if none.
std::vector<std::size_t> handed_on(const PtxStatement& s) {
  const PtxTokens modifiers = s.modifiers();
  if (s.opcode() == "mov" && all_of(modifiers, {".u64", ".s64", ".b64"})) return {1};
  if (s.opcode() == "cvta" && all_of(modifiers, {".to", ".global", ".const", ".u64"})) return {1};
  if (s.opcode() == "add" && all_of(modifiers, {".u64", ".s64"})) return {1, 2};
  if (s.opcode() == "sub" && all_of(modifiers, {".u64", ".s64"})) return {1};
  if (s.opcode() == "mad" && all_of(modifiers, {".lo", ".wide", ".u64", ".s64", ".u32", ".s32"})) return {3};
  if (s.opcode() == "selp" && all_of(modifiers, {".u64", ".s64", ".b64"})) return {1, 2};
  return {};
}

// The index of the operand that is only read through; npos if none.
std::size_t read_through(const PtxStatement& s) {
  if (s.opcode() == "ld" || s.opcode() == "ldu" || s.opcode() == "cp") return 1;  // the source of a copy
  if (s.opcode() == "prefetch" || s.opcode() == "prefetchu") return 0;
  return std::string::npos;
}

class Flow {
 public:
  Flow(const Ptx& ptx, const PtxNames& variables) : ptx_(ptx) {
    for (const std::string_view v : variables) variables_[v] = {v};
    ptx.walk([this](const auto& body) { settle(body); }, [this](const PtxStatement& s) { declare(s); });
  }

  const std::map<std::string_view, std::string>& written() const { return written_; }
  bool declares(std::string_view name) const { return declared_.contains(name); }

 private:
  // `.global .align 4 .b8 table[16] = {...}`: an initializer with an address hides it from the analysis, and
  // so does a directive that is not a declaration.
  void declare(const PtxStatement& s) {
    const auto first = s.tokens.begin(), last = s.tokens.end();
    const auto equals = std::find_if(first, last, [](const PtxToken& t) { return t.is("="); });
    const bool variable =
        std::any_of(first, equals, [](const PtxToken& t) { return t.is(".global") || t.is(".const"); });
    for (auto t = first; t != last; ++t) {
      if (t->kind != Kind::name || !variables_.contains(t->text)) continue;
      if (variable && t < equals)
        declared_.insert(t->text);
      else
        written_.try_emplace(t->text, variable ? "its address is in the initializer of a variable"
                                               : fmt::format("its name is in a directive {}", first->text));
    }
  }

  // Analyzes one function: computes what its registers may hold until nothing changes, then where that goes.
  void settle(const std::vector<const PtxStatement*>& body) {
    PtxHolds holds = variables_;
    for (bool grew = true; grew;) {
      grew = false;
      for (const PtxStatement* s : body) {
        const std::vector<std::size_t> from = handed_on(*s);
        if (from.empty()) continue;
        const auto operands = s->operands();
        for (const std::size_t i : from) {
          if (i >= operands.size()) continue;
          const PtxNames incoming = held(holds, operands[i]);
          if (incoming.empty()) continue;
          for (const PtxToken& to : operands[0]) {
            if (to.kind != Kind::name) continue;
            PtxNames& there = holds[to.text];
            const std::size_t before = there.size();
            there.insert(incoming.begin(), incoming.end());
            grew = grew || there.size() != before;
          }
        }
      }
    }
    for (const PtxStatement* s : body) judge(holds, *s);
  }

  void judge(const PtxHolds& holds, const PtxStatement& s) {
    const PtxTokens modifiers = s.modifiers();
    const auto is = [&](std::string_view what) {
      return std::any_of(modifiers.begin(), modifiers.end(), [&](const PtxToken& m) { return m.is(what); });
    };
    if (s.opcode() == "cvta" && is(".const") && !is(".to"))
      if (const auto operands = s.operands(); operands.size() < 2 || held(holds, operands[1]).empty())
        written_.try_emplace(constant_memory,
                             fmt::format("{}'{}' of a value that is not the address of a variable",
                                         ptx_.place_of(s), s.spelled_opcode()));
    if (s.opcode() == "ld" && is(".const"))  // by number: what is there belongs to the driver
      if (const auto operands = s.operands(); operands.size() < 2 || held(holds, operands[1]).empty())
        written_.try_emplace(constant_memory, fmt::format("{}'{}' at an address that is not a variable's",
                                                          ptx_.place_of(s), s.spelled_opcode()));
    if (const auto guard = holds.find(s.predicate); guard != holds.end()) escape(guard->second, s);
    if (held(holds, s.tokens).empty()) return;
    const auto operands = s.operands();
    const std::vector<std::size_t> from = handed_on(s);
    std::size_t addresses = 0;  // how many operands of a sum are addresses
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const PtxNames here = held(holds, operands[i]);
      if (here.empty()) continue;
      const bool hands_on = std::find(from.begin(), from.end(), i) != from.end();
      if (hands_on && plain_name(operands[i], false) != "") {
        if (++addresses > 1 && s.opcode() == "add") escape(here, s);
      } else if (i == 0 && (!from.empty() || s.opcode() == "ld" || s.opcode() == "ldu") &&
                 plain_name(operands[i], false) != "" && !variables_.contains(operands[i].front().text)) {
        continue;  // a register that is overwritten
      } else if (i != read_through(s) || plain_name(operands[i], true) == "") {
        escape(here, s);
      }
    }
  }

  void escape(const PtxNames& variables, const PtxStatement& s) {
    for (const std::string_view v : variables)
      written_.try_emplace(v,
                           fmt::format("{}its address goes into '{}'", ptx_.place_of(s), s.spelled_opcode()));
  }

  const Ptx& ptx_;
  PtxHolds variables_;
  std::map<std::string_view, std::string> written_;  // variable -> why it counts as written
  PtxNames declared_;
};

}  // namespace

std::vector<WritableVariable> writable_variables(const Cubin& cubin, std::string_view text) {
  PtxNames variables;
  for (const CubinVariable& v : cubin.globals) variables.insert(v.name);
  for (const CubinVariable& v : cubin.constants) variables.insert(v.name);
  std::vector<WritableVariable> writable;
  const auto ptx = read_ptx(text);
  if (!ptx) {
    for (const std::string_view v : variables)
      writable.push_back({std::string(v), "the PTX cannot be analyzed: it has " + ptx.error().message});
    return writable;
  }
  const Flow flow(*ptx, variables);
  if (const auto why = flow.written().find(constant_memory); why != flow.written().end())
    writable.push_back({std::string(why->first), why->second});
  for (const std::string_view v : variables) {
    const auto why = flow.written().find(v);
    if (why != flow.written().end())
      writable.push_back({std::string(v), why->second});
    else if (!flow.declares(v))  // not declared, so it cannot be followed
      writable.push_back({std::string(v), "the PTX does not declare it"});
  }
  return writable;
}

}  // namespace cultivar
