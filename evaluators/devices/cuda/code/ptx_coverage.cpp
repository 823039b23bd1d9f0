// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/ptx_coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

constexpr std::size_t most_blocks = 1 << 20;

// The pointer, and the kernel that sets it: one thread, once in a run.
constexpr std::string_view prologue = R"(
.global .align 8 .u64 cultivar_check_counters = 0;
.visible .entry cultivar_check_begin(.param .u64 cultivar_check_to, .param .u64 cultivar_check_bytes)
{
	.reg .pred %cultivar_p;
	.reg .b16 %cultivar_h;
	.reg .b64 %cultivar_a, %cultivar_n, %cultivar_i, %cultivar_s;
	ld.param.u64 %cultivar_a, [cultivar_check_to];
	ld.param.u64 %cultivar_n, [cultivar_check_bytes];
	cvta.to.global.u64 %cultivar_a, %cultivar_a;
	st.global.u64 [cultivar_check_counters], %cultivar_a;
	mov.u16 %cultivar_h, 0;
	mov.u64 %cultivar_i, 0;
$L__cultivar_check_clear:
	add.s64 %cultivar_s, %cultivar_a, %cultivar_i;
	st.global.u8 [%cultivar_s], %cultivar_h;
	add.s64 %cultivar_i, %cultivar_i, 1;
	setp.lt.u64 %cultivar_p, %cultivar_i, %cultivar_n;
	@%cultivar_p bra $L__cultivar_check_clear;
	ret;
}

)";
// At the beginning of the body of each function.
constexpr std::string_view registers = "\t.reg .b16 %cultivar_check_h;\n\t.reg .b64 %cultivar_check_a;\n";

std::string store_at(std::uint64_t counter) {
  return fmt::format(
      "\tld.global.u64 %cultivar_check_a, [cultivar_check_counters];\n\tmov.u16 %cultivar_check_h, 1;\n"
      "\tst.global.u8 [%cultivar_check_a+{}], %cultivar_check_h;\n",
      counter);
}

std::string_view trimmed(std::string_view line) {
  const std::size_t from = line.find_first_not_of(" \t");
  if (from == line.npos) return {};
  return line.substr(from, line.find_last_not_of(" \t") - from + 1);
}

bool is_label(std::string_view text) {
  return text.starts_with('$') && text.ends_with(':') && text.find_first_of(" \t,;") == text.npos;
}

// An instruction after which another block begins.
bool ends_block(std::string_view text) {
  if (text.starts_with('@')) {
    const std::size_t blank = text.find_first_of(" \t");
    if (blank == text.npos) return false;
    text = trimmed(text.substr(blank));
  }
  for (const std::string_view opcode : {"bra", "brx", "ret", "exit", "trap"})
    if (text.starts_with(opcode) &&
        (text.size() == opcode.size() || text[opcode.size()] == '.' || text[opcode.size()] == ' ' ||
         text[opcode.size()] == '\t' || text[opcode.size()] == ';'))
      return true;
  return false;
}

// The numbers of a `.loc`: file, line, and those from which it was inlined; 0 if there are none.
struct Location {
  unsigned file = 0, line = 0, outer_file = 0, outer_line = 0;
};

bool two_numbers(std::string_view text, unsigned& first, unsigned& second) {
  text = trimmed(text);
  const auto one = std::from_chars(text.data(), text.data() + text.size(), first);
  if (one.ec != std::errc()) return false;
  text = trimmed(text.substr(static_cast<std::size_t>(one.ptr - text.data())));
  return std::from_chars(text.data(), text.data() + text.size(), second).ec == std::errc();
}

class Counting {
 public:
  Counting(const std::map<unsigned, std::string_view>& names, const std::vector<std::string>& files)
      : names_(names), files_(files) {}

  Expected<CountedPtx> write(std::string_view ptx) {
    const auto wrong = [](std::string_view line) {
      return failure("count blocks",
                     fmt::format("the line '{}' of the PTX is not as NVRTC writes it", line.substr(0, 80)));
    };
    bool prologue_written = false, heading = false, body = false, assembly = false;
    int depth = 0;
    for (const std::string_view line : lines_of(ptx)) {
      const std::string_view text = trimmed(line);
      if (text == "// begin inline asm") assembly = true;
      if (text == "// end inline asm") assembly = false;
      const std::string_view code = trimmed(text.substr(0, text.find("//")));
      if (!assembly && code.starts_with(".loc")) note_location(code);
      const bool function = code.find(".entry ") != code.npos || code.find(".func ") != code.npos;
      if (!prologue_written && depth == 0 && code.starts_with('.') && past_head(code)) {
        out_.text += prologue;
        prologue_written = true;
      }
      if (depth == 0 && function) heading = true;
      if (depth == 0 && heading && code.ends_with(';')) heading = false;  // a declaration
      if (body && !assembly && depth == 1 && begins_here(code)) begin();
      out_.text.append(line).append("\n");
      for (const char c : code) {
        if (c == '{') ++depth;
        if (c == '}') --depth;
      }
      if (depth < 0) return wrong(line);
      if (heading && !body && depth == 1) {
        if (code != "{") return wrong(line);
        out_.text += registers;
        heading = false;
        body = pending_ = true;
      } else if (body && depth == 0) {
        close();
        body = pending_ = false;
      } else if (body && !assembly && depth == 1) {
        if (is_label(code) || ends_block(code)) {
          close();
          pending_ = true;
        }
      }
      if (next_ > most_blocks) return failure("count blocks", "the PTX has too many blocks");
    }
    if (depth != 0 || !prologue_written) return failure("count blocks", "the PTX ends inside a function");
    out_.counters = next_;
    return std::move(out_);
  }

 private:
  static bool past_head(std::string_view code) {
    for (const std::string_view head : {".version", ".target", ".address_size"})
      if (code.starts_with(head)) return false;
    return true;
  }

  void note_location(std::string_view code) {
    Location now;
    if (!two_numbers(code.substr(4), now.file, now.line)) return;
    if (const std::size_t at = code.find("inlined_at"); at != code.npos)
      two_numbers(code.substr(at + 10), now.outer_file, now.outer_line);
    location_ = now;
    if (open_) take();
  }

  // Whether an instruction that is written next is the first of a block: labels, directives and declarations
  // come before it.
  bool begins_here(std::string_view code) const {
    return pending_ && !code.empty() && !code.starts_with('.') && !is_label(code) && code != "{" &&
           code != "}";
  }

  void begin() {
    pending_ = false;
    open_ = true;
    block_ = {};
    block_.counter = next_++;
    out_.text += store_at(block_.counter);
    take();
  }

  void close() {
    if (open_ && block_.first_line > 0) out_.blocks.push_back(block_);
    open_ = false;
  }

  void take() {
    for (const auto& [file, line] :
         {std::pair(location_.file, location_.line), std::pair(location_.outer_file, location_.outer_line)}) {
      const auto name = names_.find(file);
      if (name == names_.end() || line == 0 || std::ranges::find(files_, name->second) == files_.end())
        continue;
      if (!block_.file.empty() && block_.file != name->second) return;
      const int number = static_cast<int>(line);
      block_.file = name->second;
      block_.first_line = block_.first_line == 0 ? number : std::min(block_.first_line, number);
      block_.last_line = std::max(block_.last_line, number);
      return;
    }
  }

  const std::map<unsigned, std::string_view>& names_;
  const std::vector<std::string>& files_;
  CountedPtx out_;
  CodeBlock block_;
  Location location_;
  bool pending_ = false, open_ = false;
  std::uint64_t next_ = violation_bytes;
};

}  // namespace

Expected<CountedPtx> with_counters(std::string_view ptx, const std::vector<std::string>& files) {
  const auto parsed = read_ptx(ptx);
  if (!parsed) return tl::make_unexpected(parsed.error());
  return Counting(parsed->files, files).write(ptx);
}

}  // namespace cultivar
