// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cpp/check_build.hpp"

#include <algorithm>
#include <charconv>

#include "evaluators/system/plain_text.hpp"

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

// Threads may use the same memory where they wait for each other, and where one gets what another has freed.
bool may_share_memory(std::string_view source) {
  constexpr std::string_view kWords[] = {"asm",     "__sync_", "fence", "alloc", "new ", "vector<",  "deque<",
                                         "string>", "string ", "map<",  "set<",  "_ptr", "function<"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return source.find(word) != source.npos; });
}

}  // namespace

std::vector<std::vector<std::string>> check_build_flags(std::string_view source) {
  const std::vector<std::string> common{"-fsanitize-coverage=trace-pc", "-fsanitize=bounds",
                                        "-ftrivial-auto-var-init=pattern", "-D_GLIBCXX_ASSERTIONS", "-w"};
  // Optimization leaves few blocks: `if (C == 4097) x = 0;` becomes a choice between two values.
  std::vector<std::vector<std::string>> forms{{"-O0"},
                                              {"-O1", "-fno-inline", "-fno-ssa-phiopt", "-fno-if-conversion"},
                                              {"-O2", "-fno-tree-vectorize", "-fno-if-conversion"}};
  for (auto& form : forms) form.insert(form.end(), common.begin(), common.end());
  if (may_share_memory(source)) return forms;
  // The linker's complaint about what the table has no answer for leads to the next form.
  std::vector<std::string> with_threads = forms.front();
  for (const char* flag :
       {"-fsanitize=thread", "-nodefaultlibs", "-Wl,-z,defs", "-lstdc++", "-lm", "-lc", "-lgcc"})
    with_threads.emplace_back(flag);
  forms.insert(forms.begin(), std::move(with_threads));
  return forms;
}

// Its names begin with `cultivar_check_`, because the variant's macros apply to it, too.
std::string_view check_build_source() {
  return R"(extern "C" {
#define cultivar_check_plain __attribute__((no_sanitize_coverage, no_sanitize("thread")))
#define cultivar_check_own __attribute__((visibility("hidden"), used)) cultivar_check_plain
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

struct cultivar_check_record {  // Violation in coverage/coverage.hpp
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

// Who used a place last, of a launch: threads by the addresses of their control blocks.
struct cultivar_check_use {
  unsigned long cultivar_check_place_, cultivar_check_writer, cultivar_check_reader;
  int cultivar_check_lock;
};
enum : unsigned long { cultivar_check_most_uses = 1UL << 15 };  // check_build_table
static cultivar_check_use* cultivar_check_uses;
static unsigned long cultivar_check_launch;
static int cultivar_check_ordered;  // threads of this launch wait for each other

cultivar_check_plain static void cultivar_check_note(unsigned long cultivar_check_kind,
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

// A place is of 4 bytes; those that are used one or two bytes at a time are told apart from these.
cultivar_check_plain static void cultivar_check_touch(unsigned long cultivar_check_at,
                                                      unsigned long cultivar_check_bytes, int cultivar_check_writes,
                                                      void* cultivar_check_from) {
  if (!cultivar_check_uses || cultivar_check_ordered) return;
  const unsigned long cultivar_check_me = (unsigned long)__builtin_thread_pointer();
  const unsigned long cultivar_check_unit = cultivar_check_bytes < 4 ? cultivar_check_bytes : 4;
  const unsigned long cultivar_check_end = cultivar_check_at + cultivar_check_bytes;
  for (cultivar_check_at &= ~(cultivar_check_unit - 1); cultivar_check_at < cultivar_check_end;
       cultivar_check_at += cultivar_check_unit) {
    const unsigned long cultivar_check_key =
        (cultivar_check_at << 2 | cultivar_check_unit >> 1) ^ cultivar_check_launch << 52;
    cultivar_check_use* const cultivar_check_it =
        cultivar_check_uses + cultivar_check_at / cultivar_check_unit % cultivar_check_most_uses;
    // Mostly nothing changes, and nobody needs to wait.
    const unsigned long cultivar_check_by = cultivar_check_it->cultivar_check_writer;
    const unsigned long cultivar_check_of = cultivar_check_it->cultivar_check_reader;
    if (cultivar_check_it->cultivar_check_place_ == cultivar_check_key &&
        (cultivar_check_writes
             ? cultivar_check_by == cultivar_check_me && (!cultivar_check_of || cultivar_check_of == cultivar_check_me)
             : (!cultivar_check_by || cultivar_check_by == cultivar_check_me) &&
                   (cultivar_check_of == 1 || cultivar_check_of == cultivar_check_me)))
      continue;
    while (__atomic_exchange_n(&cultivar_check_it->cultivar_check_lock, 1, __ATOMIC_ACQUIRE))
      while (__atomic_load_n(&cultivar_check_it->cultivar_check_lock, __ATOMIC_RELAXED)) __builtin_ia32_pause();
    unsigned long cultivar_check_writer = cultivar_check_it->cultivar_check_writer;
    unsigned long cultivar_check_reader = cultivar_check_it->cultivar_check_reader;
    if (cultivar_check_it->cultivar_check_place_ != cultivar_check_key)
      cultivar_check_writer = cultivar_check_reader = 0;
    const int cultivar_check_conflict =
        (cultivar_check_writer && cultivar_check_writer != cultivar_check_me) ||
        (cultivar_check_writes && cultivar_check_reader && cultivar_check_reader != cultivar_check_me);
    cultivar_check_it->cultivar_check_place_ = cultivar_check_key;
    cultivar_check_it->cultivar_check_writer = cultivar_check_writes ? cultivar_check_me : cultivar_check_writer;
    if (!cultivar_check_writes)  // 1: several
      cultivar_check_reader =
          cultivar_check_reader && cultivar_check_reader != cultivar_check_me ? 1 : cultivar_check_me;
    cultivar_check_it->cultivar_check_reader = cultivar_check_reader;
    __atomic_store_n(&cultivar_check_it->cultivar_check_lock, 0, __ATOMIC_RELEASE);
    if (cultivar_check_conflict)
      cultivar_check_note(3, 0, (unsigned long)cultivar_check_from - (unsigned long)__ehdr_start, "", "");
  }
}

#define cultivar_check_both(cultivar_check_name, cultivar_check_bytes)                                  \
  cultivar_check_own void __tsan_read##cultivar_check_name(void* cultivar_check_at) {                   \
    cultivar_check_touch((unsigned long)cultivar_check_at, cultivar_check_bytes, 0,                     \
                         __builtin_return_address(0));                                                  \
  }                                                                                                     \
  cultivar_check_own void __tsan_write##cultivar_check_name(void* cultivar_check_at) {                  \
    cultivar_check_touch((unsigned long)cultivar_check_at, cultivar_check_bytes, 1,                     \
                         __builtin_return_address(0));                                                  \
  }
cultivar_check_both(1, 1) cultivar_check_both(2, 2) cultivar_check_both(4, 4) cultivar_check_both(8, 8)
cultivar_check_both(16, 16)
cultivar_check_own void __tsan_read_range(void* cultivar_check_at, unsigned long cultivar_check_bytes) {
  cultivar_check_touch((unsigned long)cultivar_check_at, cultivar_check_bytes, 0, __builtin_return_address(0));
}
cultivar_check_own void __tsan_write_range(void* cultivar_check_at, unsigned long cultivar_check_bytes) {
  cultivar_check_touch((unsigned long)cultivar_check_at, cultivar_check_bytes, 1, __builtin_return_address(0));
}
cultivar_check_own void __tsan_func_entry(void*) {}
cultivar_check_own void __tsan_func_exit() {}
cultivar_check_own void __tsan_init() {}
// Of the atomic operations those that hand out work. A relaxed one orders nothing else.
cultivar_check_own int __tsan_atomic32_fetch_add(volatile int* cultivar_check_at, int cultivar_check_by,
                                                 int cultivar_check_order) {
  if (cultivar_check_order != __ATOMIC_RELAXED) cultivar_check_ordered = 1;
  return __atomic_fetch_add(cultivar_check_at, cultivar_check_by, __ATOMIC_SEQ_CST);
}
cultivar_check_own long __tsan_atomic64_fetch_add(volatile long* cultivar_check_at, long cultivar_check_by,
                                                  int cultivar_check_order) {
  if (cultivar_check_order != __ATOMIC_RELAXED) cultivar_check_ordered = 1;
  return __atomic_fetch_add(cultivar_check_at, cultivar_check_by, __ATOMIC_SEQ_CST);
}

__attribute__((visibility("default"))) cultivar_check_plain void cultivar_check_begin(
    unsigned char* cultivar_check_to, unsigned long cultivar_check_bytes) {
  __builtin_memset(cultivar_check_to, 0, cultivar_check_bytes);
  cultivar_check_counters = cultivar_check_to;
  cultivar_check_count = cultivar_check_bytes - cultivar_check_most_uses * sizeof(cultivar_check_use) - 64;
  cultivar_check_uses = (cultivar_check_use*)(cultivar_check_to + (cultivar_check_count + 63) / 64 * 64);
  cultivar_check_launch = cultivar_check_ordered = 0;
}
// Between two launches.
__attribute__((visibility("default"))) cultivar_check_plain void cultivar_check_next() {
  ++cultivar_check_launch;
  cultivar_check_ordered = 0;
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
  bool between = true;       // instructions: the lines before the next one say where it is from
  bool before_runs = false;  // a constructor, which runs when the object is loaded
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
      before_runs = line.find("<_sub_I_") != line.npos || line.find("<_GLOBAL__sub_I_") != line.npos;
      continue;
    }
    if (before_runs) continue;
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
