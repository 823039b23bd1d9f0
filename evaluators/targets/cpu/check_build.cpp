#include "evaluators/targets/cpu/check_build.hpp"

#include <algorithm>
#include <charconv>

#include "evaluators/system/lines.hpp"

namespace cultivar {
namespace {

constexpr std::string_view callback = "<__sanitizer_cov_trace_pc>";

// "/src/variant.cpp:15 (discriminator 3)" or "inlined by /src/variant.cpp:15 (softmax)".
bool place_in(std::string_view line, const std::vector<std::string>& files, std::string& found, int& number) {
  for (const std::string& file : files) {
    const std::size_t at = line.find(file + ":");
    if (at == line.npos || (at > 0 && line[at - 1] != '/' && line[at - 1] != ' ')) continue;
    const char* const digits = line.data() + at + file.size() + 1;
    if (std::from_chars(digits, line.data() + line.size(), number).ec != std::errc()) continue;
    found = file;
    return true;
  }
  return false;
}

// Where control does not go on to the next instruction.
bool ends_block(std::string_view text) {
  return text.starts_with("jmp") || text.starts_with("ret") || text.starts_with("ud2") ||
         text.starts_with("repz ret");
}

}  // namespace

std::vector<std::vector<std::string>> check_build_flags() {
  const std::vector<std::string> common{"-fsanitize-coverage=trace-pc", "-fsanitize=bounds",
                                        "-ftrivial-auto-var-init=pattern", "-D_GLIBCXX_ASSERTIONS", "-w"};
  // Optimization leaves few blocks: `if (C == 4097) x = 0;` becomes a choice between two values.
  std::vector<std::vector<std::string>> forms{{"-O0"},
                                              {"-O1", "-fno-inline", "-fno-ssa-phiopt", "-fno-if-conversion"},
                                              {"-O2", "-fno-tree-vectorize", "-fno-if-conversion"}};
  for (auto& form : forms) form.insert(form.end(), common.begin(), common.end());
  return forms;
}

// Its names begin with `cultivar_check_`, because the variant's macros apply to it, too.
std::string_view check_build_source() {
  return R"(extern "C" {
#define cultivar_check_own __attribute__((visibility("hidden"), no_sanitize_coverage, used))
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

struct cultivar_check_record {  // Violation in coverage/violation.hpp
  unsigned long cultivar_check_kind, cultivar_check_line, cultivar_check_index;
  char cultivar_check_text[104];
};
struct cultivar_check_place {
  const char* cultivar_check_file;
  unsigned cultivar_check_line, cultivar_check_column;
};
struct cultivar_check_type {
  unsigned short cultivar_check_kind, cultivar_check_info;
  char cultivar_check_name[1];
};
struct cultivar_check_bounds {
  cultivar_check_place cultivar_check_at;
  const cultivar_check_type* cultivar_check_array;
  const cultivar_check_type* cultivar_check_number;
};

static unsigned char* cultivar_check_counters;
static unsigned long cultivar_check_count;

__attribute__((no_sanitize_coverage)) static void cultivar_check_note(unsigned long cultivar_check_kind,
                                                                      unsigned long cultivar_check_line,
                                                                      unsigned long cultivar_check_index,
                                                                      const char* cultivar_check_file,
                                                                      const char* cultivar_check_text) {
  cultivar_check_record* cultivar_check_to = (cultivar_check_record*)cultivar_check_counters;
  if (!cultivar_check_to || cultivar_check_to->cultivar_check_kind) return;
  cultivar_check_to->cultivar_check_line = cultivar_check_line;
  cultivar_check_to->cultivar_check_index = cultivar_check_index;
  volatile char* cultivar_check_out = cultivar_check_to->cultivar_check_text;
  volatile char* const cultivar_check_end = cultivar_check_out + 103;
  while (*cultivar_check_file && cultivar_check_out < cultivar_check_end)
    *cultivar_check_out++ = *cultivar_check_file++;
  if (cultivar_check_out < cultivar_check_end) *cultivar_check_out++ = '\n';
  while (*cultivar_check_text && cultivar_check_out < cultivar_check_end)
    *cultivar_check_out++ = *cultivar_check_text++;
  cultivar_check_to->cultivar_check_kind = cultivar_check_kind;
}

cultivar_check_own void __sanitizer_cov_trace_pc() {
  const unsigned long cultivar_check_at =
      (unsigned long)__builtin_return_address(0) - (unsigned long)__ehdr_start;
  if (cultivar_check_at < cultivar_check_count) cultivar_check_counters[cultivar_check_at] = 1;
}

cultivar_check_own void __ubsan_handle_out_of_bounds(cultivar_check_bounds* cultivar_check_what,
                                                     unsigned long cultivar_check_index) {
  cultivar_check_note(1, cultivar_check_what->cultivar_check_at.cultivar_check_line, cultivar_check_index,
                      cultivar_check_what->cultivar_check_at.cultivar_check_file,
                      cultivar_check_what->cultivar_check_array->cultivar_check_name);
}
cultivar_check_own void __ubsan_handle_out_of_bounds_abort(cultivar_check_bounds* cultivar_check_what,
                                                           unsigned long cultivar_check_index) {
  __ubsan_handle_out_of_bounds(cultivar_check_what, cultivar_check_index);
}

__attribute__((visibility("default"), no_sanitize_coverage)) void cultivar_check_begin(
    unsigned char* cultivar_check_to, unsigned long cultivar_check_bytes) {
  __builtin_memset(cultivar_check_to, 0, cultivar_check_bytes);
  cultivar_check_counters = cultivar_check_to;
  cultivar_check_count = cultivar_check_bytes;
}
}

namespace std {
// Of the C++ library's own assertions.
[[noreturn]] cultivar_check_own void __glibcxx_assert_fail(const char* cultivar_check_file,
                                                           int cultivar_check_line, const char*,
                                                           const char* cultivar_check_words) {
  cultivar_check_note(2, cultivar_check_line, 0, cultivar_check_file ? cultivar_check_file : "",
                      cultivar_check_words ? cultivar_check_words : "");
  __builtin_trap();
}
}
)";
}

std::vector<CodeBlock> blocks_in(std::string_view listing, const std::vector<std::string>& files) {
  std::vector<CodeBlock> blocks;
  CodeBlock block;
  bool counted = false, open = false;  // the last instruction called; its block goes on
  std::string file;
  int line_number = 0;
  bool between = true;  // instructions: the lines before the next one say where it is from
  const auto close = [&] {
    if (block.first_line > 0) blocks.push_back(block);
    block = {};
    open = false;
  };
  const auto take = [&] {
    if (line_number == 0 || (!block.file.empty() && block.file != file)) return;
    block.file = file;
    block.first_line = block.first_line == 0 ? line_number : std::min(block.first_line, line_number);
    block.last_line = std::max(block.last_line, line_number);
  };
  for (const std::string_view line : lines_of(listing)) {
    if (line.ends_with(">:") && line.find(" <") != line.npos) {  // "0000000000001020 <softmax>:"
      close();
      counted = false;
      line_number = 0;
      continue;
    }
    const std::size_t colon = line.find(":\t");  // "    1139:\tvmovups (%rdi),%zmm0"
    if (colon == line.npos || line.find_first_not_of(" 0123456789abcdef") != colon) {
      if (between && line.find(':') != line.npos && line.find('/') != line.npos) line_number = 0;
      std::string found;
      int number = 0;
      if (line_number == 0 && place_in(line, files, found, number)) file = found, line_number = number;
      if (line.find('/') != line.npos) between = false;
      continue;
    }
    between = true;
    const std::string_view text = line.substr(colon + 2);
    std::uint64_t address = 0;
    const std::size_t digits = line.find_first_not_of(' ');
    if (std::from_chars(line.data() + digits, line.data() + colon, address, 16).ec != std::errc()) continue;
    if (counted) block.counter = address, counted = false;
    if (text.starts_with("call") && text.find(callback) != text.npos) {
      close();
      counted = open = true;
      take();
      continue;
    }
    if (open) take();
    if (open && ends_block(text)) close();
  }
  close();
  return blocks;
}

}  // namespace cultivar
