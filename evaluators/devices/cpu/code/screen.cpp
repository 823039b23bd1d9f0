// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/code/screen.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <string_view>
#include <vector>

#include "evaluators/profile/disassembly.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {
namespace {

// Functions of libm by the name of the double version; the float (f) and long double (l) versions are added
// below.
const std::set<std::string_view>& mathematics() {
  static const std::set<std::string_view> names{
      "acos",     "acosh", "asin",      "asinh",   "atan",      "atan2",     "atanh",  "cbrt",      "ceil",
      "copysign", "cos",   "cosh",      "erf",     "erfc",      "exp",       "exp10",  "exp2",      "expm1",
      "fabs",     "fdim",  "floor",     "fma",     "fmax",      "fmin",      "fmod",   "frexp",     "hypot",
      "ilogb",    "ldexp", "lgamma",    "llrint",  "llround",   "log",       "log10",  "log1p",     "log2",
      "logb",     "lrint", "lround",    "modf",    "nearbyint", "nextafter", "pow",    "remainder", "remquo",
      "rint",     "round", "roundeven", "scalbln", "scalbn",    "sin",       "sincos", "sinh",      "sqrt",
      "tan",      "tanh",  "tgamma",    "trunc"};
  return names;
}

const std::set<std::string_view>& memory_and_support() {
  static const std::set<std::string_view> names{
      "memcpy", "memmove", "memset", "memcmp", "memchr", "bcmp", "strlen", "malloc", "calloc", "realloc",
      "free", "aligned_alloc", "posix_memalign", "memalign", "qsort", "bsearch", "abs", "labs", "llabs",
      "__memcpy_chk", "__memmove_chk", "__memset_chk", "__stack_chk_fail", "abort", "__assert_fail",
      // operator new and delete, plain, array, aligned, nothrow
      "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZnwmSt11align_val_t",
      "_ZnamSt11align_val_t", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t",
      "_ZdaPvmSt11align_val_t", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZSt7nothrow",
      // inserted by the compiler and the linker
      "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize",
      "__gxx_personality_v0", "_Unwind_Resume", "__cxa_pure_virtual", "_GLOBAL_OFFSET_TABLE_"};
  return names;
}

bool library_allowed(std::string_view name) {
  for (const std::string_view prefix :
       {"libm.so", "libc.so", "libgcc_s.so", "libstdc++.so", "libmvec.so", "ld-linux"})
    if (name.starts_with(prefix)) return true;
  return false;
}

// Code that the loader would run.
std::string_view load_time_code(std::uint64_t tag) {
  switch (tag) {
    case DT_INIT:
    case DT_INIT_ARRAY:
    case DT_PREINIT_ARRAY:
      return "static constructors";
    case DT_FINI:
    case DT_FINI_ARRAY:
      return "static destructors";
    case DT_RPATH:
    case DT_RUNPATH:
      return "a library search path";
    case DT_AUDIT:
    case DT_DEPAUDIT:
    case DT_FILTER:
    case DT_AUXILIARY:
      return "an auditing or filter library";
    case DT_TEXTREL:
      return "relocations in its code";
    case DT_NEEDED:
    case DT_SONAME:
    case DT_HASH:
    case DT_GNU_HASH:
    case DT_STRTAB:
    case DT_STRSZ:
    case DT_SYMTAB:
    case DT_SYMENT:
    case DT_RELA:
    case DT_RELASZ:
    case DT_RELAENT:
    case DT_RELACOUNT:
    case DT_PLTGOT:
    case DT_PLTREL:
    case DT_PLTRELSZ:
    case DT_JMPREL:
    case DT_FLAGS:
    case DT_FLAGS_1:
    case DT_BIND_NOW:
    case DT_VERNEED:
    case DT_VERNEEDNUM:
    case DT_VERSYM:
#if defined(__aarch64__)
    case DT_AARCH64_BTI_PLT:
    case DT_AARCH64_PAC_PLT:
    case DT_AARCH64_VARIANT_PCS:
#endif
      return {};
    default:
      return "an entry for the loader that no kernel needs";
  }
}

ScreenVerdict refuse(std::string reason, std::string diagnostics) {
  return {std::move(reason), std::move(diagnostics)};
}

ScreenVerdict screen_writable(const ElfImage& image) {
  std::uint64_t protected_begin = 0, protected_end = 0;
  for (const auto& segment : image.segments)
    if (segment.type == PT_GNU_RELRO) {
      protected_begin = segment.address;
      protected_end = segment.address + segment.bytes;
    }
  std::vector<std::string> names;
  for (const auto& section : image.sections)
    if ((section.flags & SHF_ALLOC) && (section.flags & SHF_WRITE) && section.bytes > 0 &&
        ((section.flags & SHF_TLS) || section.address < protected_begin ||
         section.address + section.bytes > protected_end))
      names.push_back(fmt::format("{} ({} bytes)", section.name, section.bytes));
  bool writable = !names.empty();
  for (const auto& segment : image.segments) {
    if (segment.type == PT_TLS) writable = true;
    if (segment.type == PT_LOAD && (segment.flags & PF_W) && segment.address + segment.bytes > protected_end)
      writable = true;
  }
  if (!writable) return {};
  return refuse(
      "the kernel has writable static or thread-local variables",
      fmt::format(
          "Sections: {}. A kernel may not keep state between runs: make the variables const or local, or "
          "declare a workspace in the manifest.",
          fmt::join(names, ", ")));
}

ScreenVerdict screen_kernels(const ElfImage& image, const std::vector<std::string>& kernels) {
  std::vector<std::string> exported;
  for (const auto& symbol : image.symbols)
    if (symbol.defined && symbol.function && symbol.global) exported.push_back(symbol.name);
  for (const auto& kernel : kernels)
    if (std::find(exported.begin(), exported.end(), kernel) == exported.end())
      return refuse(
          fmt::format("the source does not define kernel '{}' of the manifest", kernel),
          fmt::format(
              "Exported functions: {}. Define it as extern \"C\" void {}(...), not static and not in a "
              "namespace.",
              exported.empty() ? "none" : fmt::format("{}", fmt::join(exported, ", ")), kernel));
  return {};
}

using namespace std::string_view_literals;

constexpr std::array bytes_of_clocks = {"\x0f\x31"sv, "\x0f\x01\xf9"sv, "\x0f\x01\xfd"sv};
constexpr std::array clocks = {"rdtscp"sv, "rdtsc"sv, "rdpru"sv};

bool faults_in_a_child() {
#if defined(__x86_64__) && defined(PR_SET_TSC)
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {  // only what is safe after a fork of a process with threads
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGSEGV, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
    if (::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) ::_exit(1);
    unsigned low = 0, high = 0;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#else
  return true;
#endif
}

bool has_bytes_of_one(std::string_view code) {
  for (const std::string_view bytes : bytes_of_clocks)
    if (code.find(bytes) != code.npos) return true;
  return false;
}

}  // namespace

bool may_call(std::string_view name) {
  if (memory_and_support().contains(name) || mathematics().contains(name)) return true;
  if (name.starts_with("_ZGV")) return true;  // libmvec
  if (name.starts_with("_ZSt") && name.find("__throw_") != name.npos)
    return true;  // range checks of containers
  if (name.starts_with("__") && name.ends_with("_finite")) return true;
  if (name.size() > 1 && (name.back() == 'f' || name.back() == 'l'))
    return mathematics().contains(name.substr(0, name.size() - 1));
  return false;
}

ScreenVerdict screen(const ElfImage& image, const std::vector<std::string>& kernels) {
  for (const auto& segment : image.segments) {
    const bool executable = segment.flags & PF_X;
    if (executable && (segment.type == PT_GNU_STACK || (segment.type == PT_LOAD && (segment.flags & PF_W))))
      return refuse("the object asks for memory that is both writable and executable",
                    "Remove the section flags that request it.");
  }
  for (const auto tag : image.tags)
    if (const auto what = load_time_code(tag); !what.empty())
      return refuse(
          fmt::format("the object has {}", what),
          "No code may run and nothing may be searched for while a kernel loads: use plain constants "
          "and locals.");
  bool indirect = image.indirect_relocations;
  for (const auto& symbol : image.symbols) indirect = indirect || (symbol.defined && symbol.indirect);
  if (indirect)
    return refuse("the object has indirect functions (ifunc, target_clones)",
                  "Their resolvers run while the kernel loads. Remove them: the code is already compiled for "
                  "this machine.");
  for (const auto& library : image.needed)
    if (!library_allowed(library))
      return refuse(fmt::format("the object needs the library {}", library),
                    "Only libc, libm, libgcc and libstdc++ are available.");
  std::vector<std::string> forbidden;
  for (const auto& symbol : image.symbols)
    if (!symbol.defined && !may_call(symbol.name)) forbidden.push_back(symbol.name);
  if (!forbidden.empty())
    return refuse(fmt::format("the kernel calls {}", fmt::join(forbidden, ", ")),
                  "A kernel may call mathematical functions, memcpy and similar functions, malloc and "
                  "free. It may use no threads (the plan starts them), files, clocks or system calls.");
  if (auto verdict = screen_writable(image); !verdict.passed()) return verdict;
  return screen_kernels(image, kernels);
}

std::string machine_code_hash(const ElfImage& image, const std::vector<std::string>& kernels) {
  std::string text;
  for (const std::string& kernel : kernels)
    if (const auto symbol = std::ranges::find(image.symbols, kernel, &ElfSymbol::name);
        symbol != image.symbols.end())
      text += fmt::format("kernel at {}\n", symbol->address);
  for (const auto& symbol : image.symbols)
    if (!symbol.defined) text += symbol.name + "\n";
  for (const auto& section : image.sections) {
    const bool loaded = (section.flags & SHF_ALLOC) && section.type != SHT_NOBITS;
    const bool names = section.type == SHT_DYNSYM || section.type == SHT_STRTAB ||
                       section.type == SHT_GNU_HASH || section.type == SHT_NOTE ||
                       section.type == SHT_DYNAMIC || section.type == SHT_GNU_verneed ||
                       section.type == SHT_GNU_versym || section.type == SHT_HASH;
    if (!loaded || names || section.name.starts_with(".eh_frame")) continue;
    text += fmt::format("{} {}\n", section.name, section.bytes);
    text.append(reinterpret_cast<const char*>(section.contents.data()), section.contents.size());
  }
  return sha256_hex(text);
}

bool clock_instructions_fault() {
  static const bool fault = faults_in_a_child();
  return fault;
}

std::string clock_instruction_in(const ElfImage& image, const std::filesystem::path& object) {
  std::vector<std::string> sections;
  for (const auto& section : image.sections)
    if ((section.flags & SHF_EXECINSTR) &&
        has_bytes_of_one({reinterpret_cast<const char*>(section.contents.data()), section.contents.size()}))
      sections.insert(sections.end(), {"-j", section.name});
  if (sections.empty()) return {};
  const auto text = disassembled(object, sections);
  if (!text) return "rdtsc (its bytes are in the code, and " + text.error().message + ")";
  for (const std::string_view clock : clocks)
    if (text->find("\t" + std::string(clock)) != text->npos) return std::string(clock);
  return {};
}

}  // namespace cultivar
