// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/cell_walls.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>

namespace cultivar::cell {
namespace {

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
