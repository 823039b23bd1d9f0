// SPDX-License-Identifier: Apache-2.0
// Determines from the PTX whether a kernel stays within its own parameters. They lie in memory of the driver
// between the arguments of other launches, among them the judge's: addresses of buffers that a kernel may not
// know, and seeds. So a parameter is read by its name and within its size. The address of one (a tensor
// map's, in practice) may be copied, selected, and given to the instructions that take a tensor map, and to
// nothing else. The analysis ignores statement order, so control flow does not matter.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/devices/cuda/code/screen.hpp"

namespace cultivar {
namespace {

using Kind = PtxToken::Kind;

std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : ~std::uint64_t{0} / 2;
}

bool of_parameters(const PtxToken& t) {
  return t.is(".param") || t.text.starts_with(".param::");
}

// Bytes of a type, 8 for ".f64"; 0 if the modifier is no type.
std::uint64_t bytes_of_type(std::string_view modifier) {
  const std::size_t digits = modifier.find_first_of("0123456789");
  if (digits == modifier.npos) return 0;
  const std::string_view kind = modifier.substr(0, digits), bits = modifier.substr(digits);
  if (kind != ".b" && kind != ".u" && kind != ".s" && kind != ".f" && kind != ".bf") return 0;
  return number_in(bits.substr(0, bits.find('x'))) / 8 * (bits.find('x') == bits.npos ? 1 : 2);
}

// How much a load reads: 16 for ld.param.v2.u64.
std::uint64_t bytes_read(const PtxTokens& modifiers) {
  std::uint64_t each = 0, count = 1;
  for (const PtxToken& m : modifiers) {
    if (m.text.starts_with(".v") && m.text.size() == 3) count = number_in(m.text.substr(2));
    if (const std::uint64_t bytes = bytes_of_type(m.text); bytes != 0) each = bytes;
  }
  return each * count;
}

// `[name]` or `[name + 4]`.
struct Place {
  std::string_view name;  // empty: anything else
  std::uint64_t offset = 0;
};
Place place_of(const PtxTokens& operand) {
  const std::size_t count = operand.size();
  if ((count != 3 && count != 5) || !operand.front().is("[") || !operand.back().is("]") ||
      operand[1].kind != Kind::name)
    return {};
  if (count == 3) return {operand[1].text, 0};
  if (!operand[2].is("+") || operand[3].kind != Kind::number) return {};
  return {operand[1].text, number_in(operand[3].text)};
}

class Parameters {
 public:
  explicit Parameters(const Ptx& ptx) : ptx_(ptx) {
    for (const PtxStatement& s : ptx.statements)
      if (s.directive()) declare(s);
    for (const auto& [name, bytes] : sizes_)
      if (others_.contains(name) || registers_.contains(name) || name.starts_with("%"))
        beyond_ = fmt::format("the name '{}' stands for two things", name);
    for (const std::string_view name : others_)
      if (registers_.contains(name) || name.starts_with("%"))
        beyond_ = fmt::format("the name '{}' stands for two things", name);
    if (beyond_.empty()) ptx.walk([this](const auto& body) { settle(body); });
  }
  const std::string& beyond() const { return beyond_; }

 private:
  // Notes what a directive declares: parameters of kernels with their sizes, those of functions and calls,
  // and registers.
  void declare(const PtxStatement& s) {
    const bool kernel =
        std::any_of(s.tokens.begin(), s.tokens.end(), [](const PtxToken& t) { return t.is(".entry"); });
    const bool registers = s.tokens.front().is(".reg");
    bool parameter = false;
    std::uint64_t bytes = 0;
    std::string_view name;
    const auto end_of_one = [&] {
      if (parameter && !name.empty()) {
        if (kernel) {
          const auto [there, added] = sizes_.try_emplace(name, bytes);
          if (!added) there->second = std::min(there->second, bytes);
        } else {
          others_.insert(name);
        }
      }
      if (registers && !name.empty()) registers_.insert(name);
      name = {};
    };
    for (std::size_t i = 0; i < s.tokens.size(); ++i) {
      const PtxToken& t = s.tokens[i];
      if (t.is(",") || t.is("(") || t.is(")")) {
        end_of_one();
        parameter = parameter && !t.is(")") && s.tokens.front().is(".param");
      } else if (t.is(".param")) {
        parameter = true;
      } else if (t.kind == Kind::modifier) {
        if (const std::uint64_t width = bytes_of_type(t.text); width != 0) bytes = width;
      } else if (t.kind == Kind::name && (parameter || registers)) {
        name = t.text;
      } else if (t.is("[") && parameter && i + 1 < s.tokens.size()) {
        bytes *= number_in(s.tokens[i + 1].text);
      }
    }
    end_of_one();
  }

  // The operands whose address the first one then holds.
  static std::vector<std::size_t> handed_on(const PtxStatement& s) {
    if (s.opcode() == "mov" || s.opcode() == "cvta") return {1};
    if (s.opcode() == "selp") return {1, 2};
    return {};
  }

  void settle(const std::vector<const PtxStatement*>& body) {
    PtxHolds holds;
    for (const auto& [name, bytes] : sizes_) holds[name] = {name};
    for (bool grew = true; grew;) {
      grew = false;
      for (const PtxStatement* s : body) {
        const auto operands = s->operands();
        for (const std::size_t i : handed_on(*s)) {
          if (i >= operands.size() || operands[0].size() != 1) continue;
          const PtxNames incoming = held(holds, operands[i]);
          if (incoming.empty()) continue;
          PtxNames& there = holds[operands[0].front().text];
          const std::size_t before = there.size();
          there.insert(incoming.begin(), incoming.end());
          grew = grew || there.size() != before;
        }
      }
    }
    for (const PtxStatement* s : body)
      if (beyond_.empty() && !stays_within(holds, *s))
        beyond_ = fmt::format("{}'{}'", ptx_.place_of(*s), s->spelled_opcode());
  }

  bool reads_within(const PtxHolds& holds, const PtxTokens& operand, std::uint64_t bytes) const {
    const Place place = place_of(operand);
    const auto found = holds.find(place.name);
    if (found == holds.end()) return false;
    return std::all_of(found->second.begin(), found->second.end(), [&](std::string_view name) {
      return bytes > 0 && place.offset + bytes <= sizes_.at(name);
    });
  }

  bool stays_within(const PtxHolds& holds, const PtxStatement& s) const {
    const PtxTokens modifiers = s.modifiers();
    const auto operands = s.operands();
    const bool space = std::any_of(modifiers.begin(), modifiers.end(), of_parameters);
    const auto has = [&](std::string_view what) {
      return std::any_of(modifiers.begin(), modifiers.end(),
                         [&](const PtxToken& m) { return m.text.starts_with(what); });
    };
    if (space && (s.opcode() == "ld" || s.opcode() == "st")) {
      if (operands.size() != 2) return false;
      const PtxTokens& address = operands[s.opcode() == "ld" ? 1 : 0];
      const PtxTokens& value = operands[s.opcode() == "ld" ? 0 : 1];
      if (s.opcode() == "st" && !held(holds, value).empty()) return false;  // out of sight
      if (others_.contains(place_of(address).name)) return true;            // of a function or a call
      return s.opcode() == "ld" && reads_within(holds, address, bytes_read(modifiers));
    }
    if (space && s.opcode() == "cvta" && !has(".to"))
      return operands.size() == 2 && operands[1].size() == 1 && !held(holds, operands[1]).empty();
    if (holds.contains(s.predicate)) return false;
    if (held(holds, s.tokens).empty()) return true;
    const std::vector<std::size_t> from = handed_on(s);
    const bool one_register = !operands.empty() && operands[0].size() == 1;  // not its halves
    const bool has_result =
        s.opcode() != "nanosleep" && s.opcode() != "bar" && s.opcode() != "barrier" && s.opcode() != "brx";
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (held(holds, operands[i]).empty()) continue;
      const bool alone = operands[i].size() == 1;
      if (alone && i == 0 && has_result && !sizes_.contains(operands[i].front().text))
        continue;  // it is overwritten
      if (alone && one_register && std::find(from.begin(), from.end(), i) != from.end()) continue;
      if (s.opcode() == "ld" && i == 1 && reads_within(holds, operands[i], bytes_read(modifiers))) continue;
      const bool takes_maps = (s.opcode() == "cp" && has(".tensor")) ||
                              (s.opcode() == "prefetch" && has(".tensormap")) ||
                              (s.opcode() == "fence" && has(".tensormap"));
      if (!takes_maps || !names_a_map(holds, operands[i])) return false;
    }
    return true;
  }

  // `[map]` or `[map, {coordinates}]`.
  static bool names_a_map(const PtxHolds& holds, const PtxTokens& operand) {
    if (operand.size() < 3 || !operand.front().is("[") || !(operand[2].is(",") || operand[2].is("]")))
      return false;
    return held(holds, {operand.begin() + 2, operand.end()}).empty();
  }

  const Ptx& ptx_;
  std::map<std::string_view, std::uint64_t> sizes_;  // of the kernels' parameters
  PtxNames others_, registers_;                      // parameters of functions and calls; registers
  std::string beyond_;
};

}  // namespace

std::string beyond_parameters(const Ptx& ptx) {
  return Parameters(ptx).beyond();
}

}  // namespace cultivar
