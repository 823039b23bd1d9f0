// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/ptx_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>

namespace cultivar {
namespace {

using Kind = PtxToken::Kind;

bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool part_of_name(char c) {
  return letter(c) || digit(c);
}

class PtxReader {
 public:
  explicit PtxReader(std::string_view text) : text_(text) {}

  // Splits the text into tokens_; on failure returns false and sets trouble_.
  bool tokenise() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const std::string_view rest = text_.substr(at_);
      if (c == ' ' || c == '\t' || c == '\n') {
        ++at_;
      } else if (rest.starts_with("//")) {
        if (!skip_comment(rest.substr(0, std::min(rest.find('\n'), rest.size())))) return false;
      } else if (rest.starts_with("/*")) {
        const std::size_t end = rest.find("*/", 2);
        if (end == rest.npos) return trouble("a comment without an end");
        if (!skip_comment(rest.substr(0, end + 2))) return false;
      } else if (c == '"') {
        const std::size_t end = rest.find_first_of("\"\\\n", 1);
        if (end == rest.npos || rest[end] != '"') return trouble("a string with an escape or without an end");
        take(Kind::string, end + 1);
      } else if (letter(c) || (c == '%' && rest.size() > 1 && part_of_name(rest[1]))) {
        take(Kind::name, word(rest, 1));
      } else if (digit(c)) {
        take(Kind::number, word(rest, 1));
      } else if (c == '.') {
        std::size_t end = word(rest, 1);
        if (end == 1) return trouble("a dot with nothing after it");
        while (rest.substr(end).starts_with("::") && word(rest, end + 2) > end + 2) end = word(rest, end + 2);
        take(Kind::modifier, end);
      } else if (std::string_view(",;:{}[]()<>=+-*/!|@&^~?%").find(c) != std::string_view::npos) {
        take(Kind::sign, 1);
      } else {
        return trouble(c > ' ' && c < 127 ? fmt::format("the sign '{}'", c)
                                          : fmt::format("a byte {:#04x}", static_cast<unsigned char>(c)));
      }
    }
    return true;
  }

  bool parse(Ptx& into) {
    at_ = 0;
    int depth = 0;
    std::string_view predicate;
    while (at_ < tokens_.size()) {
      const PtxToken& t = tokens_[at_];
      if (t.is("{") || t.is("}")) {
        depth += t.is("{") ? 1 : -1;
        if (depth < 0) return trouble("an unmatched closing brace");
        ++at_;
      } else if (t.is(";")) {
        ++at_;
      } else if (t.kind == Kind::name && sign(1, ":")) {
        at_ += 2;  // a label
      } else if (t.is("@")) {
        at_ += sign(1, "!") ? 2 : 1;
        if (at_ >= tokens_.size() || tokens_[at_].kind != Kind::name)
          return trouble("a predicate without a name");
        predicate = tokens_[at_++].text;
        continue;  // it belongs to the next statement
      } else if (t.kind == Kind::name) {
        if (!statement(into, predicate, false)) return false;
      } else if (t.kind == Kind::modifier) {
        if (!directive(into)) return false;
      } else {
        return trouble(fmt::format("a statement that begins with '{}'", t.text));
      }
      if (!predicate.empty() && (into.statements.empty() || into.statements.back().predicate != predicate))
        return trouble("a predicate on a statement that is not an instruction");
      predicate = {};
    }
    return depth == 0 || trouble("unmatched braces");
  }

  const std::string& why() const { return why_; }

 private:
  static std::size_t word(std::string_view rest, std::size_t from) {
    while (from < rest.size() && part_of_name(rest[from])) ++from;
    return from;
  }
  bool trouble(std::string what) {
    why_ = std::move(what);
    return false;
  }
  // ptxas might treat a carriage return or a trailing backslash as the end or the continuation of a line.
  bool skip_comment(std::string_view comment) {
    for (const char c : comment)
      if ((c >= 0 && c < ' ' && c != '\t' && c != '\n') || c == 127)
        return trouble(fmt::format("the byte {:#04x} in a comment", static_cast<unsigned char>(c)));
    if (comment.back() == '\\') return trouble("a comment that ends in a backslash");
    at_ += comment.size();
    return true;
  }
  void take(Kind kind, std::size_t size) {
    tokens_.push_back({kind, text_.substr(at_, size)});
    at_ += size;
  }
  bool sign(std::size_t ahead, std::string_view what) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == Kind::sign &&
           tokens_[at_ + ahead].is(what);
  }
  bool next_is(Kind kind) const { return at_ < tokens_.size() && tokens_[at_].kind == kind; }

  std::optional<unsigned> number() {
    unsigned value = 0;
    if (!next_is(Kind::number)) return std::nullopt;
    const std::string_view text = tokens_[at_++].text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  }

  // `file line column[, function_name label[+n], inlined_at file line column]`; not terminated by a
  // semicolon.
  bool location() {
    const auto triple = [&](unsigned& file, unsigned& line) {
      const auto f = number(), l = number(), c = number();
      if (!f || !l || !c) return trouble("a .loc without three numbers");
      file = *f;
      line = *l;
      return true;
    };
    unsigned outer = 0;
    if (!triple(file_, line_)) return false;
    while (sign(0, ",") && at_ + 1 < tokens_.size()) {
      if (tokens_[at_ + 1].is("function_name")) {
        at_ += 2;
        if (!next_is(Kind::name)) return trouble("a .loc whose function has no name");
        ++at_;
        if (sign(0, "+")) {
          ++at_;
          if (!number()) return trouble("a .loc whose function has a malformed offset");
        }
      } else if (tokens_[at_ + 1].is("inlined_at")) {
        at_ += 2;
        if (!triple(outer, outer)) return false;
      } else {
        return trouble("a .loc with extra tokens");
      }
    }
    return true;
  }

  // Debug information: bytes, words and labels in braces.
  bool section() {
    if (!next_is(Kind::modifier) && !next_is(Kind::string)) return trouble("a .section without a name");
    ++at_;
    while (sign(0, ",")) {  // flags, as strings
      ++at_;
      if (!next_is(Kind::string)) return trouble("a .section with malformed flags");
      ++at_;
    }
    if (!sign(0, "{")) return trouble("a .section without braces");
    for (++at_; at_ < tokens_.size(); ++at_) {
      const PtxToken& t = tokens_[at_];
      if (t.is("}")) {
        ++at_;
        return true;
      }
      if (t.kind == Kind::sign && !t.is(",") && !t.is(":") && !t.is("+") && !t.is("-"))
        return trouble(fmt::format("the sign '{}' in a .section", t.text));
    }
    return trouble("a .section without an end");
  }

  bool directive(Ptx& into) {
    const std::string_view what = tokens_[at_].text;
    if (what == ".loc") return ++at_, location();
    if (what == ".section") return ++at_, section();
    if (what == ".file") {
      ++at_;
      const auto index = number();
      if (!index || !next_is(Kind::string)) return trouble("a .file without number and name");
      std::string_view name = tokens_[at_].text;
      name.remove_suffix(name.ends_with('"') ? 1 : 0);
      into.files[*index] = name.substr(name.find_last_of("/\"") + 1);
      ++at_;
      while (sign(0, ",")) {  // time and size
        ++at_;
        if (!number()) return trouble("a .file with extra tokens");
      }
      return true;
    }
    if (what == ".version" || what == ".address_size") {
      ++at_;
      if (!number()) return trouble(fmt::format("{} without a number", what));
      if (what == ".version" && next_is(Kind::modifier)) ++at_;
      return true;
    }
    if (what == ".target") {
      do {
        ++at_;
        if (!next_is(Kind::name)) return trouble("a .target without a name");
        ++at_;
      } while (sign(0, ","));
      return true;
    }
    return statement(into, {}, true);
  }

  // Reads up to the semicolon. A function's head ends at its brace; otherwise it is a declaration.
  bool statement(Ptx& into, std::string_view predicate, bool directive) {
    PtxStatement s;
    s.predicate = predicate;
    s.file = file_;
    s.line = line_;
    bool function = false;
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      const PtxToken& t = tokens_[at_];
      const bool is_sign = t.kind == Kind::sign;
      if (directive && depth == 0 && t.kind == Kind::modifier && (t.is(".entry") || t.is(".func")))
        function = true;
      const bool opens = is_sign && (t.is("{") || t.is("(") || t.is("["));
      const bool closes = is_sign && (t.is("}") || t.is(")") || t.is("]"));
      if (is_sign && depth == 0 && (t.is(";") || (function && t.is("{")))) {
        if (t.is(";")) ++at_;  // the brace of a body is left for parse()
        into.statements.push_back(std::move(s));
        return true;
      }
      if (is_sign && t.is(";")) return trouble("a statement with unclosed brackets");
      depth += opens ? 1 : (closes ? -1 : 0);
      if (depth < 0) return trouble("an unmatched closing bracket");
      s.tokens.push_back(t);
    }
    return trouble("a statement without an end");
  }

  std::string_view text_;
  PtxTokens tokens_;
  std::size_t at_ = 0;  // position in text_, later in tokens_
  unsigned file_ = 0, line_ = 0;
  std::string why_;
};

}  // namespace

bool PtxStatement::function_head() const {
  return directive() && std::any_of(tokens.begin(), tokens.end(),
                                    [](const PtxToken& t) { return t.is(".entry") || t.is(".func"); });
}

std::string_view PtxStatement::function_name() const {
  int depth = 0;  // `.func (.param .b32 result) name (...)`
  for (const PtxToken& t : tokens) {
    depth += t.is("(") ? 1 : (t.is(")") ? -1 : 0);
    if (depth == 0 && t.kind == PtxToken::Kind::name) return t.text;
  }
  return {};
}

PtxTokens PtxStatement::modifiers() const {
  PtxTokens result;
  for (std::size_t i = 1; i < tokens.size() && tokens[i].kind == PtxToken::Kind::modifier; ++i)
    result.push_back(tokens[i]);
  return result;
}

std::string PtxStatement::spelled_opcode() const {
  std::string result(opcode());
  for (const PtxToken& t : modifiers()) result += t.text;
  return result;
}

std::vector<PtxTokens> PtxStatement::operands() const {
  std::vector<PtxTokens> result;
  int depth = 0;
  for (std::size_t i = 1 + modifiers().size(); i < tokens.size(); ++i) {
    const PtxToken& t = tokens[i];
    const bool is_sign = t.kind == PtxToken::Kind::sign;
    if (result.empty()) result.emplace_back();
    if (is_sign && depth == 0 && t.is(",")) {
      result.emplace_back();
      continue;
    }
    if (is_sign && (t.is("[") || t.is("{") || t.is("("))) ++depth;
    if (is_sign && (t.is("]") || t.is("}") || t.is(")"))) --depth;
    result.back().push_back(t);
  }
  return result;
}

std::string Ptx::place_of(const PtxStatement& s) const {
  const std::string_view file = file_of(s);
  if (s.line == 0 || file.empty()) return {};
  return file.starts_with("variant.") ? fmt::format("line {}: ", s.line)
                                      : fmt::format("{}:{}: ", file, s.line);
}

void Ptx::walk(const std::function<void(const std::vector<const PtxStatement*>&)>& body,
               const std::function<void(const PtxStatement&)>& directive) const {
  std::vector<const PtxStatement*> instructions;
  for (const PtxStatement& s : statements) {
    if (!s.directive()) {
      instructions.push_back(&s);
    } else if (s.function_head()) {
      body(instructions);
      instructions.clear();
    } else if (directive) {
      directive(s);
    }
  }
  body(instructions);
}

Expected<Ptx> read_ptx(std::string_view text) {
  PtxReader reader(text);
  Ptx result;
  if (!reader.tokenise() || !reader.parse(result)) return failure("read PTX", reader.why());
  return result;
}

PtxNames held(const PtxHolds& holds, const PtxTokens& tokens) {
  PtxNames all;
  for (const PtxToken& t : tokens)
    if (t.kind == PtxToken::Kind::name)
      if (const auto found = holds.find(t.text); found != holds.end())
        all.insert(found->second.begin(), found->second.end());
  return all;
}

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
