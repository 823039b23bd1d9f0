// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/cell_walls.hpp"

#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace cultivar::cell {
namespace {

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// True for pages that the kernel itself mapped (vvar, vvar_vclock, vdso), which are the only ones that cannot
// be put into a core dump. A sandbox has no /proc in which to read their names.
bool mapped_by_kernel(char* page) {
  return ::madvise(page, page_bytes(), MADV_DODUMP) != 0 && errno == EINVAL;
}

template <class T>
T at(const char* image, std::uint64_t offset) {
  T value;
  std::memcpy(&value, image + offset, sizeof value);
  return value;
}

// Machine code that makes this system call with the arguments of the function that it replaces.
struct Stub {
#if defined(__x86_64__)
  explicit Stub(long number) {
    std::memcpy(code + 1, &number, 4);  // mov eax, number; syscall; ret
  }
  unsigned char code[8] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
  static constexpr unsigned char kTrap[] = {0xcc};
#elif defined(__aarch64__)
  explicit Stub(long number) : code{0xd2800008U | static_cast<std::uint32_t>(number) << 5} {}
  std::uint32_t code[3] = {0, 0xd4000001U, 0xd65f03c0U};  // mov x8, number; svc 0; ret
  static constexpr unsigned char kTrap[] = {0x00, 0x00, 0x20, 0xd4};
#endif
};

// The system call behind a function of the vDSO; -1 if it has none.
long call_behind(std::string_view name) {
  for (const std::string_view prefix : {"__vdso_", "__kernel_"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  if (name == "clock_gettime") return SYS_clock_gettime;
  if (name == "clock_getres") return SYS_clock_getres;
  if (name == "gettimeofday") return SYS_gettimeofday;
  if (name == "getcpu") return SYS_getcpu;
  if (name == "getrandom") return SYS_getrandom;
  if (name == "rt_sigreturn") return SYS_rt_sigreturn;
#ifdef SYS_time
  if (name == "time") return SYS_time;
#endif
  return -1;
}

std::uint64_t loaded_bytes(const char* image) {
  const auto header = at<Elf64_Ehdr>(image, 0);
  std::uint64_t end = 0;
  for (int i = 0; i < header.e_phnum; ++i)
    if (const auto p = at<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr)); p.p_type == PT_LOAD)
      end = std::max(end, p.p_vaddr + p.p_memsz);
  return end;
}

// Replaces the code of every function in the image. The vDSO lies at one piece, with addresses equal to
// offsets.
void replace_functions(char* image, std::uint64_t bytes) {
#if defined(__x86_64__) || defined(__aarch64__)
  const auto header = at<Elf64_Ehdr>(image, 0);
  for (int i = 0; i < header.e_shnum; ++i) {
    const std::uint64_t where = header.e_shoff + i * sizeof(Elf64_Shdr);
    if (where + sizeof(Elf64_Shdr) > bytes) return;
    const auto symbols = at<Elf64_Shdr>(image, where);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    const auto names = at<Elf64_Shdr>(image, header.e_shoff + symbols.sh_link * sizeof(Elf64_Shdr));
    for (std::uint64_t s = 0; s + sizeof(Elf64_Sym) <= symbols.sh_size; s += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(image, symbols.sh_offset + s);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0 ||
          symbol.st_value + std::max<std::uint64_t>(symbol.st_size, sizeof(Stub)) > bytes)
        continue;
      for (std::uint64_t b = 0; b < symbol.st_size; ++b)
        image[symbol.st_value + b] = static_cast<char>(Stub::kTrap[b % sizeof Stub::kTrap]);
      const long number = call_behind(image + names.sh_offset + symbol.st_name);
      if (number < 0 || symbol.st_size < sizeof(Stub)) continue;
      const Stub stub(number);
      std::memcpy(image + symbol.st_value, &stub, sizeof stub);
    }
  }
#else
  (void)image, (void)bytes;
#endif
}

bool forbid(scmp_filter_ctx context, int number, std::uint32_t action) {
  // A system call that this architecture lacks is already forbidden.
  return number < 0 || seccomp_rule_add(context, action, number, 0) == 0;
}

bool allow(scmp_filter_ctx context, int number) {
  return seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0) == 0;
}

// Waiting without a timeout, and waking: what locks need. With a timeout, a futex is a clock.
bool allow_waiting(scmp_filter_ctx context) {
  const auto operation = [](std::uint32_t number) {
    const std::uint64_t flags = FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;
    return SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffU & ~flags, number);
  };
  const auto endless = SCMP_A3(SCMP_CMP_EQ, 0);
  return seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(futex), 1, operation(FUTEX_WAKE)) == 0 &&
         seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(futex), 2, operation(FUTEX_WAIT), endless) == 0 &&
         seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(futex), 2, operation(FUTEX_WAIT_BITSET),
                          endless) == 0;
}

// What malloc and kernels use. Others damage the machine (MADV_HWPOISON, as root) or share memory with other
// processes (MADV_MERGEABLE).
bool allow_advice(scmp_filter_ctx context) {
  bool good = true;
  for (const std::uint32_t advice : {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED,
                                     MADV_HUGEPAGE, MADV_NOHUGEPAGE})
    good = good && seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(madvise), 1,
                                    SCMP_A2(SCMP_CMP_MASKED_EQ, 0xffffffffU, advice)) == 0;
  return good;
}

// To read files. One that is created, or its times, would outlive the run.
bool allow_reading(scmp_filter_ctx context) {
  constexpr std::uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC;
  return seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                          SCMP_A2(SCMP_CMP_MASKED_EQ, writing, O_RDONLY)) == 0;
}

// What the second filter needs, and a library that names its memory. Not PR_SET_TSC.
bool allow_settings(scmp_filter_ctx context) {
  constexpr std::uint32_t name_memory = 0x53564d41;  // PR_SET_VMA
  bool good = true;
  for (const std::uint32_t option :
       {std::uint32_t{PR_SET_NO_NEW_PRIVS}, std::uint32_t{PR_GET_NO_NEW_PRIVS}, std::uint32_t{PR_SET_SECCOMP},
        std::uint32_t{PR_GET_SECCOMP}, name_memory})
    good = good && seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffU, option)) == 0;
  return good;
}

}  // namespace

const char* take_clocks_away() {
#ifdef PR_SET_TSC
  // The counter's instructions then fault. Threads inherit this.
  const bool counter_hidden = ::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0;
#if defined(__x86_64__)
  if (!counter_hidden) return "this system cannot forbid the instruction rdtsc (prctl PR_SET_TSC)";
#else
  (void)counter_hidden;
#endif
#endif
  char* const vdso = reinterpret_cast<char*>(::getauxval(AT_SYSINFO_EHDR));
  if (vdso == nullptr) return nullptr;
  if (!mapped_by_kernel(vdso)) return "the vDSO cannot be told from other memory (madvise MADV_DODUMP)";
  const std::size_t page = page_bytes();
  char *begin = vdso, *end = vdso;
  while (mapped_by_kernel(begin - page)) begin -= page;
  while (mapped_by_kernel(end)) end += page;

  const std::size_t bytes = (loaded_bytes(vdso) + page - 1) / page * page;
  if (bytes == 0 || bytes > static_cast<std::size_t>(end - vdso)) return "the vDSO has an unknown form";
  void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return "no memory for a copy of the vDSO";
  std::memcpy(copy, vdso, bytes);
  replace_functions(static_cast<char*>(copy), bytes);
  if (::munmap(begin, static_cast<std::size_t>(end - begin)) != 0)
    return "this kernel does not let a process unmap its clock (vvar, vdso)";
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, vdso) != vdso)
    return "a copy of the vDSO cannot be put in its place";
  // Where memory of one's own may not become executable, the clock functions of libc fault.
  if (::mprotect(vdso, bytes, PROT_READ | PROT_EXEC) != 0) ::mprotect(vdso, bytes, PROT_READ);
  return nullptr;
}

// No code of a candidate should run yet; if any does, it finds no clock and nothing that outlives the run.
bool lock_for_loading() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_TRAP);
  if (!context) return false;
  // Kill the process on system calls with another architecture's numbers (32-bit).
  bool good = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
  for (const int number : {SCMP_SYS(read),
                           SCMP_SYS(pread64),
                           SCMP_SYS(write),
                           SCMP_SYS(close),
                           SCMP_SYS(fstat),
                           SCMP_SYS(stat),
                           SCMP_SYS(newfstatat),
                           SCMP_SYS(statx),
                           SCMP_SYS(lseek),
                           SCMP_SYS(access),
                           SCMP_SYS(faccessat),
                           SCMP_SYS(faccessat2),
                           SCMP_SYS(readlink),
                           SCMP_SYS(readlinkat),
                           SCMP_SYS(getcwd),
                           SCMP_SYS(uname),
                           SCMP_SYS(mmap),
                           SCMP_SYS(mprotect),
                           SCMP_SYS(munmap),
                           SCMP_SYS(mremap),
                           SCMP_SYS(madvise),
                           SCMP_SYS(brk),
                           SCMP_SYS(futex),
                           SCMP_SYS(sched_yield),
                           SCMP_SYS(getrandom),
                           SCMP_SYS(exit),
                           SCMP_SYS(exit_group),
                           SCMP_SYS(rt_sigreturn),
                           SCMP_SYS(seccomp),
                           SCMP_SYS(close_range),
                           SCMP_SYS(landlock_restrict_self),
                           SCMP_SYS(rt_sigprocmask),
                           SCMP_SYS(restart_syscall)})
    good = good && (number < 0 || allow(context, number));
  good = good && allow_reading(context) && allow_settings(context) &&
         forbid(context, SCMP_SYS(reboot), SCMP_ACT_KILL_PROCESS) && seccomp_load(context) == 0;
  seccomp_release(context);
  return good;
}

bool lock_for_running() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_TRAP);
  if (!context) return false;
  bool good = seccomp_attr_set(context, SCMP_FLTATR_CTL_TSYNC, 1) == 0 &&
              seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
  // Not exit: when a thread ends, the kernel marks what the thread's robust list names with the thread's
  // number, which counts the runs.
  for (const int number : {SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
                           SCMP_SYS(sched_yield), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(brk)})
    good = good && allow(context, number);
  good = good && allow_waiting(context) && allow_advice(context);
  // Memory for malloc: anonymous, never executable.
  good =
      good &&
      seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                       SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)) == 0 &&
      seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
  good = good && forbid(context, SCMP_SYS(reboot), SCMP_ACT_KILL_PROCESS) && seccomp_load(context) == 0;
  seccomp_release(context);
  return good;
}

void fatal_call() {
  for (;;) {
    ::syscall(SYS_reboot, 0, 0, 0, nullptr);
    __builtin_trap();
  }
}

}  // namespace cultivar::cell
