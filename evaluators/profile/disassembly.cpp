// SPDX-License-Identifier: Apache-2.0
#include "evaluators/profile/disassembly.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {

namespace {

constexpr double deadline_s = 10.0;
constexpr std::size_t most_bytes = std::size_t{32} << 20;

// %ymm13 -> 256 bits, register 13; 0 bits if no vector register begins here.
struct VectorRegister {
  int bits = 0, number = 0;
};
VectorRegister register_at(std::string_view text) {
  for (const auto& [name, bits] : {std::pair{"%zmm", 512}, {"%ymm", 256}, {"%xmm", 128}}) {
    if (!text.starts_with(name)) continue;
    int number = 0;
    for (std::size_t i = 4; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
      number = 10 * number + (text[i] - '0');
    return {bits, number};
  }
  return {};
}

}  // namespace

std::map<std::string, double> vector_use(std::string_view disassembly) {
  double instructions = 0.0, stack = 0.0, streamed = 0.0;
  std::map<int, double> by_width;
  std::map<int, std::set<int>> registers;
  while (!disassembly.empty()) {
    const std::size_t end = std::min(disassembly.find('\n'), disassembly.size());
    const std::string_view line = disassembly.substr(0, end);
    disassembly.remove_prefix(std::min(end + 1, disassembly.size()));
    const std::size_t colon = line.find(":\t");  // "    1139:\tvmovups (%rdi),%zmm0"
    if (colon == line.npos || line.find_first_not_of(" ") == line.npos) continue;
    const std::string_view text = line.substr(colon + 2);
    ++instructions;
    const std::string_view mnemonic = text.substr(0, text.find_first_of(" \t"));
    const bool loads = mnemonic.ends_with("movntdqa");
    if (mnemonic.find("movnt") != mnemonic.npos && !loads) ++streamed;
    if (text.find("(%rsp") != text.npos && !text.starts_with("lea") && !text.starts_with("nop")) ++stack;
    int widest = 0;
    for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1)) {
      const VectorRegister found = register_at(text.substr(at));
      if (found.bits == 0) continue;
      widest = std::max(widest, found.bits);
      registers[0].insert(found.number);
    }
    if (widest > 0) ++by_width[widest];
  }
  if (instructions == 0.0) return {};
  std::map<std::string, double> use{{"instructions", instructions}, {"stack_accesses", stack}};
  if (streamed > 0.0) use["streamed_stores"] = streamed;
  use["widest_vector_bits"] = by_width.empty() ? 0.0 : by_width.rbegin()->first;
  use["vector_instructions"] = by_width.empty() ? 0.0 : by_width.rbegin()->second;
  use["vector_registers"] = static_cast<double>(registers[0].size());
  return use;
}

Expected<std::string> disassembled(const std::filesystem::path& object,
                                   const std::vector<std::string>& more) {
#ifndef __x86_64__
  return failure("disassemble", "machine code can be read only if it is for x86-64");
#endif
  ProcessOptions options;
  options.command = {"objdump", "-d", "--no-show-raw-insn", "-j", ".text"};
  options.command.insert(options.command.end(), more.begin(), more.end());
  options.command.push_back(object.string());
  options.environment = {{"LC_ALL=C"}};
  options.pipe_input = false;
  auto child = ChildProcess::spawn(options);
  if (!child) return failure("disassemble", "objdump is missing; install the package binutils");
  const Clock::time_point deadline = deadline_in(deadline_s);
  std::string text;
  std::array<char, 65536> chunk{};
  while (text.size() < most_bytes && Clock::now() < deadline) {
    pollfd ready{child->output(), POLLIN, 0};
    if (::poll(&ready, 1, 200) < 0) break;
    if (ready.revents == 0) continue;
    const ssize_t got = ::read(child->output(), chunk.data(), chunk.size());
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  if (!child->wait_or_kill(deadline) || !child->poll()->success())
    return failure("disassemble", "objdump failed: " + child->captured());
  return text;
}

Expected<std::map<std::string, double>> vector_use_of(const std::filesystem::path& object) {
  const auto text = disassembled(object);
  if (!text) return tl::make_unexpected(text.error());
  return vector_use(*text);
}

namespace {

constexpr std::string_view source_name = "variant.cpp";  // the compiler's name of the source
constexpr std::size_t most_code = 48;                    // instructions of one loop that are kept
constexpr std::size_t most_spans = 2000;                 // loops of one function that are looked at

struct Place {
  std::string_view file;
  int line = 0;
};

struct Instruction {
  std::uint64_t address = 0;
  std::string_view text;
  Place place;
};

// "/src/variant.cpp:15 (discriminator 3)" or "inlined by /src/variant.cpp:15 (softmax)".
std::optional<Place> place_in(std::string_view line, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::size_t at = line.find(file + ":");
    if (at == line.npos || (at > 0 && line[at - 1] != '/' && line[at - 1] != ' ')) continue;
    int number = 0;
    const char* const digits = line.data() + at + file.size() + 1;
    if (std::from_chars(digits, line.data() + line.size(), number).ec == std::errc())
      return Place{file, number};
  }
  return std::nullopt;
}

// The address that a jump or call names; nullopt for one through a register or memory.
std::optional<std::uint64_t> destination(std::string_view text) {
  const std::size_t space = text.find(' ');
  const std::size_t at = space == text.npos ? space : text.find_first_not_of(' ', space);
  std::uint64_t address = 0;
  if (at == text.npos ||
      std::from_chars(text.data() + at, text.data() + text.size(), address, 16).ec != std::errc())
    return std::nullopt;
  return address;
}

bool scalar_float(std::string_view mnemonic) {
  return mnemonic.ends_with("ss") || mnemonic.ends_with("sd");
}

bool is_fused(std::string_view mnemonic) {  // vfmadd231ps, vfnmsub213sd, ...
  return mnemonic.starts_with("vfm") || mnemonic.starts_with("vfnm");
}

int vector_bits(std::string_view text) {
  for (const auto& [name, bits] : {std::pair{"%zmm", 512}, {"%ymm", 256}, {"%xmm", 128}})
    if (text.find(name) != text.npos) return bits;
  return 0;
}

void count(const Instruction& instruction, HotLoop& loop) {
  const std::string_view text = instruction.text, mnemonic = text.substr(0, text.find(' '));
  ++loop.instructions;
  if (mnemonic == "call") {
    const std::size_t open = text.find('<'), close = text.find_first_of("@+>", open);
    const std::string name(open == text.npos || close == text.npos ? "a function"
                                                                   : text.substr(open + 1, close - open - 1));
    if (std::ranges::find(loop.calls, name) == loop.calls.end()) loop.calls.push_back(name);
    return;
  }
  const int bits = vector_bits(text);
  if (bits > 0 && is_fused(mnemonic)) ++loop.fused;
  if (bits > 0 && scalar_float(mnemonic)) ++loop.scalars;
  if (bits > 0 && !scalar_float(mnemonic)) {
    ++loop.vectors;
    loop.widest_bits = std::max(loop.widest_bits, bits);
  }
  const std::size_t memory = text.rfind(')');
  if (memory == text.npos || text.find('(') == text.npos || mnemonic.starts_with("lea") ||
      mnemonic.starts_with("nop") || mnemonic.starts_with("prefetch"))
    return;
  // In this syntax the destination comes last. A comparison has none.
  const bool writes = text.find(',', memory) == text.npos && !mnemonic.starts_with("cmp") &&
                      !mnemonic.starts_with("test") && !mnemonic.starts_with("vucomi") &&
                      !mnemonic.starts_with("vcomi");
  ++(writes ? loop.stores : loop.loads);
}

struct Span {
  std::size_t begin = 0, end = 0;  // of instructions, both inclusive
};

bool contains(const Span& outer, const Span& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end &&
         (inner.begin != outer.begin || inner.end != outer.end);
}

// Without the instructions of the loops inside it.
HotLoop loop_of(const std::vector<Instruction>& code, Span span, const std::vector<Span>& inside,
                std::string_view function) {
  HotLoop loop;
  loop.function = function;
  std::string_view file;
  for (std::size_t i = span.begin; i <= span.end; ++i) {
    const auto inner =
        std::ranges::find_if(inside, [i](const Span& one) { return one.begin <= i && i <= one.end; });
    if (inner != inside.end()) continue;
    const Instruction& instruction = code[i];
    count(instruction, loop);
    if (instruction.place.line > 0) {
      if (file.empty()) file = instruction.place.file;
      if (instruction.place.file == file) {
        loop.first_line =
            loop.first_line == 0 ? instruction.place.line : std::min(loop.first_line, instruction.place.line);
        loop.last_line = std::max(loop.last_line, instruction.place.line);
      }
    }
    if (loop.code.size() < most_code)
      loop.code.push_back({instruction.place.line, std::string(instruction.text)});
  }
  if (file != source_name) loop.file = file;
  return loop;
}

std::vector<HotLoop> loops_in(const std::vector<Instruction>& code, std::string_view function) {
  std::vector<Span> spans;  // one for each target of a jump backward
  for (std::size_t i = 0; i < code.size() && spans.size() < most_spans; ++i) {
    if (!code[i].text.starts_with('j')) continue;
    const auto target = destination(code[i].text);
    if (!target || *target > code[i].address) continue;
    const auto begin = std::ranges::lower_bound(code, *target, {}, &Instruction::address);
    if (begin == code.end() || begin->address != *target) continue;
    const auto first = static_cast<std::size_t>(begin - code.begin());
    const auto known = std::ranges::find(spans, first, &Span::begin);
    if (known == spans.end())
      spans.push_back({first, i});
    else
      known->end = std::max(known->end, i);
  }
  // A loop around others is one of them if it has more multiply-adds of its own: those of unrolled loops,
  // beside loops that prepare a mask.
  std::vector<HotLoop> loops;
  for (const Span& span : spans) {
    std::vector<Span> inside;
    int depth = 0;
    for (const Span& other : spans) {
      if (contains(span, other)) inside.push_back(other);
      if (contains(other, span)) ++depth;
    }
    HotLoop loop = loop_of(code, span, inside, function);
    int fused = 0;  // most of a loop inside
    for (const Span& inner : inside) fused = std::max(fused, loop_of(code, inner, {}, function).fused);
    if (!inside.empty() && loop.fused <= fused) continue;
    loop.depth = depth + (inside.empty() ? 0 : 1);
    loops.push_back(std::move(loop));
  }
  return loops;
}

// A loop that calls a function of the variant with loops of its own is around these.
void move_into_functions(std::vector<HotLoop>& loops) {
  constexpr int kNested = 4;  // calls
  const auto called_by = [](const std::string& function) {
    return [&function](const HotLoop& loop) {
      return loop.function != function && std::ranges::find(loop.calls, function) != loop.calls.end();
    };
  };
  std::map<std::string, int> around;  // loops, by function
  for (const HotLoop& loop : loops) around[loop.function] = 0;
  for (int i = 0; i < kNested; ++i)
    for (auto& [function, depth] : around)
      for (const HotLoop& loop : loops)
        if (called_by(function)(loop)) depth = std::max(depth, around[loop.function] + loop.depth + 1);
  std::erase_if(loops, [&](const HotLoop& loop) {
    return std::ranges::any_of(around, [&](const auto& row) { return called_by(row.first)(loop); });
  });
  for (HotLoop& loop : loops) loop.depth += around[loop.function];
}

}  // namespace

std::vector<HotLoop> hot_loops(std::string_view listing, const std::vector<std::string>& files,
                               std::size_t most) {
  std::vector<HotLoop> loops;
  std::vector<Instruction> code;
  std::string_view function;
  Place place;
  bool between = true;  // instructions: the lines before the next one say where it is from
  const auto end_function = [&] {
    for (HotLoop& loop : loops_in(code, function)) loops.push_back(std::move(loop));
    code.clear();
    place = {};
  };
  for (const std::string_view line : lines_of(listing)) {
    if (line.ends_with(">:") && line.find(" <") != line.npos) {  // "0000000000001020 <softmax>:"
      end_function();
      const std::size_t at = line.find(" <") + 2;
      function = line.substr(at, line.size() - at - 2);
      continue;
    }
    const std::size_t colon = line.find(":\t");  // "    1139:\tvmovups (%rdi),%zmm0"
    if (colon == line.npos || line.find_first_not_of(" 0123456789abcdef") != colon) {
      const auto found = place_in(line, files);
      if (found && between) place = *found, between = false;  // the innermost that is the variant's
      continue;
    }
    between = true;
    Instruction instruction;
    const std::size_t digits = line.find_first_not_of(' ');
    if (std::from_chars(line.data() + digits, line.data() + colon, instruction.address, 16).ec != std::errc())
      continue;
    instruction.text = line.substr(colon + 2);
    instruction.text = instruction.text.substr(0, instruction.text.find("  #"));
    while (instruction.text.ends_with(' ')) instruction.text.remove_suffix(1);
    instruction.place = place;
    code.push_back(instruction);
  }
  end_function();
  move_into_functions(loops);
  std::ranges::stable_sort(loops, std::ranges::greater(), [](const HotLoop& loop) {
    return std::tuple(std::ranges::count_if(loop.calls, std::not_fn(moves_blocks)),
                      loop.depth + (loop.fused > 0 ? 1 : 0), loop.fused, loop.instructions);
  });
  if (loops.size() > most) loops.resize(most);
  return loops;
}

Expected<std::vector<HotLoop>> hot_loops_of(const std::filesystem::path& object, std::string_view source) {
  const auto listing = disassembled(object, {"-l", "--inlines"});
  if (!listing) return tl::make_unexpected(listing.error());
  std::vector<std::string> files{std::string(source_name)};
  for (const HeaderFile& header : split_source(source).headers) files.emplace_back(header.name);
  return hot_loops(*listing, files);
}

bool moves_blocks(const std::string& call) {
  return call == "memcpy" || call == "memmove" || call == "memset";
}

std::string words_of(const HotLoop& loop) {
  std::string words = loop.first_line == 0 ? std::string("a loop")
                      : loop.first_line == loop.last_line
                          ? fmt::format("line {}", loop.first_line)
                          : fmt::format("lines {} to {}", loop.first_line, loop.last_line);
  if (!loop.file.empty()) words += " of " + loop.file;
  words += fmt::format(" ({}): {} instructions, ", loop.function, loop.instructions);
  words += loop.vectors > 0 ? fmt::format("{} on vectors of up to {} bits, ", loop.vectors, loop.widest_bits)
                            : std::string("none on vectors, ");
  words += fmt::format("{} on single floats, {} loads, {} stores", loop.scalars, loop.loads, loop.stores);
  if (loop.fused > 0) words += fmt::format(", {} multiply-adds", loop.fused);
  if (!loop.calls.empty()) words += fmt::format("; calls {}", fmt::join(loop.calls, ", "));
  return words;
}

}  // namespace cultivar
