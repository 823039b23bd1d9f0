// Which variables the code may write, told from the PTX. An address is followed through moves and arithmetic,
// without regard to order; it may end in a load. Whatever else takes it - a store, an atomic, a call, an
// instruction unknown here - counts as a write. So a table that is only read passes, and nothing that is
// written does.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "evaluators/targets/cuda/screen.hpp"

namespace cultivar {
namespace {

using Names = std::set<std::string, std::less<>>;

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}
bool part_of_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c));
}

// `.loc 1 4 0, function_name f, inlined_at 1 5 0` ends where its operands end, without a semicolon. What
// follows its operands on the same line would be an instruction that nobody reads.
bool ends_its_line(std::string_view line) {
  std::size_t at = 0;
  bool name_follows = false;
  while (at < line.size()) {
    const char c = line[at];
    if (std::isspace(static_cast<unsigned char>(c)) || c == ',' || c == '+') {
      ++at;
      continue;
    }
    const std::size_t end = std::min(line.find_first_of(" \t\r,+", at), line.size());
    const std::string_view word = line.substr(at, end - at);
    const bool number = word.find_first_not_of("0123456789.") == word.npos;
    if (!number && !name_follows && word != "function_name" && word != "inlined_at" &&
        !word.starts_with("sm_"))
      return false;
    name_follows = word == "function_name";
    at = end;
  }
  return true;
}

// The instructions and declarations alone: no comments, strings, line directives and debug data. nullopt: it
// is not written as NVRTC writes it, and something may hide in it.
std::optional<std::string> bare(std::string_view ptx) {
  std::string text;
  for (std::size_t i = 0; i < ptx.size(); ++i) {
    if (ptx.substr(i).starts_with("//")) {
      i = std::min(ptx.find('\n', i), ptx.size()) - 1;
    } else if (ptx.substr(i).starts_with("/*")) {
      i = std::min(ptx.find("*/", i + 2), ptx.size() - 1) + 1;
    } else if (ptx[i] == '"') {
      i = std::min(ptx.find('"', i + 1), ptx.size());
    } else {
      text += ptx[i];
    }
  }
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const std::string_view start = line.substr(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (start.starts_with(".section")) {  // debug information: data to the end
      const std::string_view rest = std::string_view(text).substr(at);
      if (rest.find(".entry") != rest.npos || rest.find(".func") != rest.npos ||
          std::count(result.begin(), result.end(), '{') != std::count(result.begin(), result.end(), '}'))
        return std::nullopt;
      break;
    }
    at = end + 1;
    bool directive = false;
    for (const std::string_view word : {".loc", ".file", ".version", ".target", ".address_size"})
      if (start.starts_with(word) &&
          !part_of_name(start.substr(word.size()).empty() ? ' ' : start[word.size()])) {
        directive = true;
        if (!ends_its_line(start.substr(word.size()))) return std::nullopt;
      }
    if (!directive) result.append(line).append("\n");
  }
  return result;
}

// Every name in a piece of text; words after a dot (types, modifiers, spaces) are none.
std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < text.size();) {
    if (!part_of_name(text[i]) && text[i] != '.') {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && part_of_name(text[end])) ++end;
    if (begins_name(text[i])) names.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return names;
}

struct Statement {
  std::string opcode;                      // up to the first dot: "ld"
  std::vector<std::string> first, others;  // names in the first operand, and in all after it
  bool directive() const { return opcode.starts_with('.'); }
};

// Operands are parted by commas that are not within brackets or braces.
Statement parse_statement(std::string_view text) {
  Statement s;
  const std::size_t word = std::min(text.find_first_of(" \t\r\n"), text.size());
  const std::size_t dot = text.find('.', 1);
  s.opcode = text.substr(0, std::min(word, dot));
  int depth = 0;
  std::size_t comma = word;
  for (; comma < text.size() && (depth > 0 || text[comma] != ','); ++comma)
    depth += text[comma] == '[' || text[comma] == '{' || text[comma] == '('
                 ? 1
                 : (text[comma] == ']' || text[comma] == '}' || text[comma] == ')' ? -1 : 0);
  s.first = names_in(text.substr(word, comma - word));
  s.others = names_in(text.substr(std::min(comma, text.size())));
  return s;
}

// Drops what may stand before an instruction: braces, labels, a predicate.
std::string_view instruction_of(std::string_view text) {
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n{}"), text.size()));
    if (text.empty()) return text;
    if (text[0] == '@') {
      text.remove_prefix(std::min(text.find_first_of(" \t\r\n"), text.size()));
      continue;
    }
    std::size_t end = 0;
    while (end < text.size() && part_of_name(text[end])) ++end;
    const std::size_t colon = text.find_first_not_of(" \t\r\n", end);
    if (end == 0 || colon == std::string_view::npos || text[colon] != ':') return text;
    text.remove_prefix(colon + 1);
  }
}

bool only_computes(std::string_view opcode) {
  static const std::set<std::string_view> names{
      "mov",   "cvta", "cvt",  "add", "addc",  "sub",   "subc",  "mul",        "mul24",   "mad",
      "mad24", "madc", "fma",  "min", "max",   "neg",   "abs",   "and",        "or",      "xor",
      "not",   "cnot", "shl",  "shr", "shf",   "selp",  "slct",  "bfe",        "bfi",     "lop3",
      "prmt",  "setp", "set",  "sad", "rem",   "div",   "popc",  "clz",        "brev",    "shfl",
      "vote",  "dp4a", "bmsk", "fns", "szext", "match", "redux", "activemask", "isspacep"};
  return names.contains(opcode);
}

bool only_reads(std::string_view opcode) {
  return opcode == "ld" || opcode == "ldu" || opcode == "prefetch" || opcode == "prefetchu" ||
         opcode == "applypriority";
}

class Flow {
 public:
  explicit Flow(const Names& variables) {
    for (const std::string& v : variables) carriers_[v] = {v};
  }

  void follow(const std::string& text) {
    std::vector<Statement> body;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(';', at), text.size());
      std::string_view piece = instruction_of(std::string_view(text).substr(at, end - at));
      at = end + 1;
      if (!piece.starts_with('.')) {
        if (!piece.empty()) body.push_back(parse_statement(piece));
        continue;
      }
      // A function's head ends at its brace; registers and labels are its own.
      if (const std::size_t brace = piece.find('{'); is_function(piece)) {
        settle(body);
        body.clear();
        if (brace != std::string_view::npos)
          if (const auto inner = instruction_of(piece.substr(brace + 1)); !inner.empty() && inner[0] != '.')
            body.push_back(parse_statement(inner));
        continue;
      }
      declare(piece);
    }
    settle(body);
  }

  const Names& written() const { return written_; }
  const Names& declared() const { return declared_; }

 private:
  static bool is_function(std::string_view piece) {
    const std::string_view head = piece.substr(0, std::min(piece.find('('), piece.find('{')));
    return head.find(".entry") != head.npos || head.find(".func") != head.npos;
  }

  // `.global .align 4 .b8 table[16] = {...}`: an initialiser that holds an address puts it out of sight.
  void declare(std::string_view piece) {
    if (piece.find(".global") == piece.npos && piece.find(".const") == piece.npos) return;
    const std::size_t equals = std::min(piece.find('='), piece.size());
    for (const std::string& name : names_in(piece.substr(0, equals))) declared_.insert(name);
    for (const std::string& name : names_in(piece.substr(equals)))
      if (const auto found = carriers_.find(name); found != carriers_.end()) written_.insert(name);
  }

  // One function: what its registers may hold, until nothing is added.
  void settle(const std::vector<Statement>& body) {
    auto holds = carriers_;
    for (bool grew = true; grew;) {
      grew = false;
      for (const Statement& s : body) {
        const Names incoming = held(holds, s.others);
        if (incoming.empty() || !only_computes(s.opcode)) continue;
        for (const std::string& to : s.first) {
          Names& there = holds[to];
          const std::size_t before = there.size();
          there.insert(incoming.begin(), incoming.end());
          grew = grew || there.size() != before;
        }
      }
    }
    for (const Statement& s : body) {
      if (s.directive() || only_computes(s.opcode) || only_reads(s.opcode)) continue;
      Names used = held(holds, s.first);
      if (s.opcode != "cp") used.merge(held(holds, s.others));  // a copy reads what is not its destination
      written_.merge(used);
    }
  }

  static Names held(const std::map<std::string, Names, std::less<>>& holds,
                    const std::vector<std::string>& names) {
    Names all;
    for (const std::string& name : names)
      if (const auto found = holds.find(name); found != holds.end())
        all.insert(found->second.begin(), found->second.end());
    return all;
  }

  std::map<std::string, Names, std::less<>> carriers_;  // name -> variables whose address it may hold
  Names written_, declared_;
};

}  // namespace

std::vector<std::string> writable_variables(const Cubin& cubin, std::string_view ptx) {
  Names variables;
  for (const CubinVariable& v : cubin.globals) variables.insert(v.name);
  for (const CubinVariable& v : cubin.constants) variables.insert(v.name);
  if (variables.empty()) return {};
  const auto text = bare(ptx);
  if (!text) return {variables.begin(), variables.end()};
  Flow flow(variables);
  flow.follow(*text);
  std::vector<std::string> writable;
  for (const std::string& name : variables)
    // What the PTX does not declare cannot be followed.
    if (flow.written().contains(name) || !flow.declared().contains(name)) writable.push_back(name);
  return writable;
}

}  // namespace cultivar
