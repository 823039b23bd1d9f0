// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/code/screen.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "evaluators/devices/cpu/code/elf_image.hpp"
#include "evaluators/devices/cpu/code/screen.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

using namespace std::string_view_literals;

// Instructions that enter the operating system, with their bytes.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSystemCalls{
    {{"syscall"sv, "\x0f\x05"sv}, {"sysenter"sv, "\x0f\x34"sv}, {"int"sv, "\xcd\x80"sv}}};

// The shared objects inside a program.
std::vector<std::string_view> objects_in(std::string_view program) {
  constexpr std::string_view magic =
      "\x7f"
      "ELF\x02\x01";
  std::vector<std::string_view> found;
  for (std::size_t at = program.find(magic); at != program.npos;) {
    const std::size_t next = program.find(magic, at + magic.size());
    found.push_back(program.substr(at, next == program.npos ? program.npos : next - at));
    at = next;
  }
  return found;
}

std::string system_call_in(const ElfImage& image, const std::filesystem::path& object) {
  for (const auto& [name, bytes] : kSystemCalls)
    for (const ElfSection& section : image.sections) {
      const std::string_view code(reinterpret_cast<const char*>(section.contents.data()),
                                  section.contents.size());
      if (!(section.flags & SHF_EXECINSTR) || code.find(bytes) == code.npos) continue;
      const auto text = disassembled(object, {"-j", section.name});
      if (!text) return fmt::format("{} (its bytes are in the code, and {})", name, text.error().message);
      if (text->find(fmt::format("\t{} ", name)) != text->npos ||
          text->find(fmt::format("\t{}\n", name)) != text->npos)
        return std::string(name);
    }
  return {};
}

// Numbers of 16 bits, where the processor has no instructions for them.
bool of_the_compiler(std::string_view name) {
  constexpr std::array all{"__extendhfsf2"sv, "__truncsfhf2"sv, "__truncdfhf2"sv, "__gnu_h2f_ieee"sv,
                           "__gnu_f2h_ieee"sv};
  return std::ranges::find(all, name) != all.end();
}

// OpenCL C has no variables that are written, no calls of libraries and nothing that runs at the start:
// whatever of them is in the code, inline assembly has put there.
ScreenVerdict verdict_on_assembly(const ElfImage& image) {
  constexpr std::array of_the_linker{".dynamic"sv, ".got"sv, ".got.plt"sv};
  constexpr const char* remedy = "Remove inline assembly.\n";
  for (const ElfSymbol& symbol : image.symbols)
    if (!symbol.defined && !may_call(symbol.name) && !of_the_compiler(symbol.name))
      return {"the kernel calls " + symbol.name, remedy};
  for (const ElfSection& section : image.sections)
    if ((section.flags & SHF_ALLOC) && (section.flags & SHF_WRITE) && section.bytes > 0 &&
        std::ranges::find(of_the_linker, section.name) == of_the_linker.end())
      return {fmt::format("the kernel has variables that it can write ({}, {} bytes)", section.name,
                          section.bytes),
              remedy};
  for (const std::uint64_t tag : image.tags)
    if (tag == DT_INIT || tag == DT_FINI) return {"the kernel has code that runs when it is loaded", remedy};
  return {};
}

ScreenVerdict verdict_on(const ElfImage& image, const std::filesystem::path& object) {
  for (const ElfSymbol& symbol : image.symbols)
    if (!symbol.defined && (symbol.name.find("print") != std::string::npos || symbol.name.starts_with("put")))
      return {"the kernel prints", "Remove printf: a kernel is judged by its outputs alone.\n"};
  if (const std::string clock = clock_instruction_in(image, object); !clock.empty())
    return {"the kernel reads a clock: " + clock,
            "No kernel needs the time. Remove inline assembly and builtins.\n"};
  if (const std::string call = system_call_in(image, object); !call.empty())
    return {"the kernel calls the operating system: " + call, "Remove inline assembly.\n"};
  return verdict_on_assembly(image);
}

// The characters of a source as a compiler sees them, with their lines.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) { join(); }

  char now(std::size_t ahead = 0) const {  // 0: the end
    Reader later(*this);
    while (ahead-- > 0) later.next();
    return later.at_ < text_.size() ? text_[later.at_] : '\0';
  }
  bool ended() const { return at_ >= text_.size(); }
  int line() const { return line_; }
  void next() {
    if (ended()) return;
    line_ += text_[at_++] == '\n';
    join();
  }

 private:
  // Leaves out a backslash (or its trigraph) with the end of its line; Clang allows blanks between them.
  void join() {
    for (;;) {
      std::size_t end = at_;
      if (text_.substr(end).starts_with("\\"))
        end += 1;
      else if (text_.substr(end).starts_with("?\?/"))
        end += 3;
      else
        return;
      while (end < text_.size() && text_[end] != '\n' &&
             std::isspace(static_cast<unsigned char>(text_[end])) != 0)
        ++end;
      if (end >= text_.size() || text_[end] != '\n') return;
      at_ = end + 1;
      ++line_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

bool in_a_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

void pass_literal(Reader& reader) {
  const char quote = reader.now();
  reader.next();
  while (!reader.ended() && reader.now() != '\n' && reader.now() != quote) {
    if (reader.now() == '\\') reader.next();
    reader.next();
  }
  if (reader.now() == quote) reader.next();
}

void pass_comment(Reader& reader) {
  const bool line = reader.now(1) == '/';
  reader.next(), reader.next();
  if (line)
    while (!reader.ended() && reader.now() != '\n') reader.next();
  else
    while (!reader.ended()) {
      const bool over = reader.now() == '*' && reader.now(1) == '/';
      reader.next();
      if (over) return reader.next();
    }
}

}  // namespace

OpenclCode examine_opencl_code(std::span<const std::byte> program, const std::filesystem::path& scratch) {
  const std::string_view text(reinterpret_cast<const char*>(program.data()), program.size());
  OpenclCode code;
  std::vector<std::string> hashes;
  for (const std::string_view object : objects_in(text)) {
    const auto image = read_elf(std::as_bytes(std::span(object)));
    if (!image) {
      code.verdict = {"the native code is malformed: " + image.error().message,
                      "Remove inline assembly: it can write into the linker's tables.\n"};
      return code;
    }
    const std::filesystem::path file = scratch / fmt::format("object{}.so", hashes.size());
    if (const auto written = write_atomically(file, object); !written) {
      code.verdict = {"the native code cannot be examined: " + written.error().message, {}};
      return code;
    }
    code.verdict = verdict_on(*image, file);
    if (!code.verdict.passed()) return code;
    for (const ElfSection& section : image->sections)
      if (section.flags & SHF_EXECINSTR) code.text_bytes += static_cast<double>(section.bytes);
    hashes.push_back(machine_code_hash(*image, {}));
  }
  if (hashes.empty()) {
    code.hash = sha256_hex(text);
    return code;
  }
  // The order is the driver's, and says nothing.
  std::ranges::sort(hashes);
  std::string all;
  for (const std::string& hash : hashes) all += hash;
  code.hash = sha256_hex(all);
  return code;
}

std::string assembly_in_source(std::string_view file, std::string_view text) {
  for (Reader reader(text); !reader.ended();) {
    const char c = reader.now();
    if (c == '"' || c == '\'') {
      pass_literal(reader);
    } else if (c == '/' && (reader.now(1) == '/' || reader.now(1) == '*')) {
      pass_comment(reader);
    } else if (in_a_word(c)) {
      const int line = reader.line();
      std::string word;
      for (; in_a_word(reader.now()); reader.next()) word += reader.now();
      if (word == "asm" || word == "__asm" || word == "__asm__")
        return fmt::format("{}:{} has inline assembly ({})", file, line, word);
    } else {
      reader.next();
    }
  }
  return {};
}

bool has_assembly(std::string_view ir) {
  for (std::string_view line : lines_of(ir)) {
    if (line.starts_with("module asm")) return true;
    if (!line.starts_with(' ') && !line.starts_with('\t')) continue;  // no instruction: a constant, metadata
    const std::string_view before = line.substr(0, line.find('"'));
    if (before.find(" asm ") != before.npos) return true;
  }
  return false;
}

}  // namespace cultivar
