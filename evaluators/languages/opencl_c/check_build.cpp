// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/opencl_c/check_build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

using Number = std::uint64_t;

std::optional<Number> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == line.npos) return std::nullopt;
  const char* const begin = line.data() + at + key.size();
  Number number = 0;
  if (std::from_chars(begin, line.data() + line.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

// Where instructions come from, by the numbers of the text's metadata.
class Places {
 public:
  Places(std::string_view ir, std::string_view main_file, const std::vector<std::string>& headers) {
    for (const std::string_view line : lines_of(ir)) {
      if (!line.starts_with('!')) continue;
      const auto own = number_after(line, "!");
      if (!own) continue;
      if (line.find("= !DILocation(") != line.npos) {
        const auto at = number_after(line, "line: "), scope = number_after(line, "scope: !");
        if (at && scope) locations_[*own] = {*scope, static_cast<int>(*at)};
      } else if (line.find("= !DIFile(") != line.npos) {
        files_[*own] = name_of(line, main_file, headers);
      } else if (const auto file = number_after(line, "file: !")) {
        scopes_[*own] = *file;
      }
    }
  }
  struct Place {
    std::string file;
    int line = 0;
  };
  // Nothing: not in a file of the kernel.
  std::optional<Place> of(Number location) const {
    const auto at = locations_.find(location);
    if (at == locations_.end() || at->second.line == 0) return std::nullopt;
    const auto scope = scopes_.find(at->second.scope);
    if (scope == scopes_.end()) return std::nullopt;
    const auto file = files_.find(scope->second);
    if (file == files_.end() || file->second.empty()) return std::nullopt;
    return Place{file->second, at->second.line};
  }

 private:
  static std::string name_of(std::string_view line, std::string_view main_file,
                             const std::vector<std::string>& headers) {
    constexpr std::string_view key = "filename: \"";
    const std::size_t at = line.find(key);
    if (at == line.npos) return {};
    std::string_view path = line.substr(at + key.size());
    path = path.substr(0, path.find('"'));
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (name.ends_with(".cl")) return std::string(main_file);
    const auto header = std::ranges::find(headers, name);
    return header == headers.end() ? std::string() : *header;
  }
  struct Location {
    Number scope;
    int line;
  };
  std::map<Number, Location> locations_;
  std::map<Number, Number> scopes_;  // scope -> file
  std::map<Number, std::string> files_;
};

bool is_label(std::string_view line) {
  if (line.empty() || line.front() == ' ' || line.front() == ';' || line.front() == '}') return false;
  const std::string_view code = line.substr(0, line.find(';'));
  const std::size_t end = code.find_last_not_of(' ');
  return end != code.npos && code[end] == ':';
}

// Instructions of one function, block by block.
struct Block {
  std::size_t first = 0;  // the line of its first instruction that may follow another; 0: none
  std::optional<Places::Place> place;
  int last_line = 0;
};

}  // namespace

CountedIr with_counters(std::string_view ir, std::string_view main_file,
                        const std::vector<std::string>& headers, std::uint64_t address) {
  const Places places(ir, main_file, headers);
  std::vector<Block> blocks;
  bool in_function = false;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(ir)) {
    ++number;
    if (line.starts_with("define ")) in_function = line.find(" !dbg !") != line.npos;
    if (line.starts_with('}')) in_function = false;
    if (!in_function) continue;
    if (line.starts_with("define ") || is_label(line)) blocks.emplace_back();
    if (!line.starts_with("  ") || blocks.empty()) continue;
    Block& block = blocks.back();
    if (line.find(" = phi ") == line.npos && block.first == 0) block.first = number;
    const std::size_t location = line.rfind("!dbg !");
    if (location == line.npos || line.find("@llvm.dbg.") != line.npos) continue;
    const auto place = places.of(number_after(line.substr(location), "!dbg !").value_or(0));
    if (!place) continue;
    if (!block.place) block.place = place, block.last_line = place->line;
    if (block.place->file != place->file) continue;
    block.place->line = std::min(block.place->line, place->line);
    block.last_line = std::max(block.last_line, place->line);
  }

  CountedIr counted;
  counted.counters = violation_bytes;
  // LLVM before 15 writes what a pointer points to.
  const bool opaque = ir.find("(ptr ") != ir.npos || ir.find(" ptr ") != ir.npos;
  std::map<std::size_t, std::uint64_t> stores;
  for (const Block& block : blocks) {
    if (block.first == 0 || !block.place) continue;
    stores[block.first] = counted.counters;
    counted.blocks.push_back({counted.counters++, block.place->file, block.place->line, block.last_line});
  }
  number = 0;
  for (const std::string_view line : lines_of(ir)) {
    if (const auto store = stores.find(++number); store != stores.end())
      counted.text += fmt::format("  store volatile i8 1, {0} inttoptr (i64 {1} to {0}), align 1\n",
                                  opaque ? "ptr" : "i8*", address + store->second);
    counted.text.append(line).append("\n");
  }
  return counted;
}

// PoCL keeps files as: the bytes of all that follows of the program (8 bytes), the length of the name, the
// name, the length of the contents (4 bytes each), the contents.
Expected<std::string> with_bitcode(std::string_view program, std::string_view own, std::string_view other) {
  constexpr std::string_view kName = "/program.bc";
  const auto unknown = [](const char* what) {
    return failure("check build", fmt::format("the driver's program is not as PoCL 3 writes it: {}", what));
  };
  const std::size_t at = program.find(own);
  if (own.empty() || at == program.npos || program.find(own, at + 1) != program.npos)
    return unknown("it does not hold its bitcode once");
  const std::size_t header = sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t) + kName.size();
  if (at < header || program.substr(at - sizeof(std::uint32_t) - kName.size(), kName.size()) != kName)
    return unknown("its bitcode has another name");
  std::uint64_t all = 0;
  std::uint32_t bytes = 0;
  std::memcpy(&all, program.data() + at - header, sizeof all);
  std::memcpy(&bytes, program.data() + at - sizeof bytes, sizeof bytes);
  if (bytes != own.size() || all != own.size() + header - sizeof all) return unknown("its sizes differ");
  all += other.size() - own.size();
  bytes = static_cast<std::uint32_t>(other.size());
  std::string made(program.substr(0, at - header));
  made.append(reinterpret_cast<const char*>(&all), sizeof all);
  made += program.substr(at - header + sizeof all, header - sizeof all - sizeof bytes);
  made.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  made += other;
  made += program.substr(at + own.size());
  return made;
}

std::string clang_of(std::string_view bitcode) {
  constexpr std::string_view key = "clang version ";
  const std::size_t at = bitcode.find(key);
  if (at == bitcode.npos) return {};
  std::string version;
  for (std::size_t i = at + key.size();
       i < bitcode.size() && std::isdigit(static_cast<unsigned char>(bitcode[i])) != 0; ++i)
    version += bitcode[i];
  return version;
}

}  // namespace cultivar
