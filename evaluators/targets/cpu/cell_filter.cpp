#include "evaluators/targets/cpu/cell_filter.hpp"

#include <linux/futex.h>
#include <seccomp.h>
#include <sys/mman.h>
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

}  // namespace

bool lock_for_loading() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (!context) return false;
  // Kill the process on system calls with another architecture's numbers (32-bit).
  bool good = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
  for (const int number : {SCMP_SYS(socket),
                           SCMP_SYS(socketpair),
                           SCMP_SYS(connect),
                           SCMP_SYS(bind),
                           SCMP_SYS(listen),
                           SCMP_SYS(accept),
                           SCMP_SYS(accept4),
                           SCMP_SYS(sendto),
                           SCMP_SYS(sendmsg),
                           SCMP_SYS(fork),
                           SCMP_SYS(vfork),
                           SCMP_SYS(clone),
                           SCMP_SYS(clone3),
                           SCMP_SYS(execve),
                           SCMP_SYS(execveat),
                           SCMP_SYS(kill),
                           SCMP_SYS(tkill),
                           SCMP_SYS(tgkill),
                           SCMP_SYS(rt_sigqueueinfo),
                           SCMP_SYS(rt_tgsigqueueinfo),
                           SCMP_SYS(pidfd_open),
                           SCMP_SYS(pidfd_send_signal),
                           SCMP_SYS(ptrace),
                           SCMP_SYS(process_vm_readv),
                           SCMP_SYS(process_vm_writev),
                           SCMP_SYS(bpf),
                           SCMP_SYS(perf_event_open),
                           SCMP_SYS(userfaultfd),
                           SCMP_SYS(io_uring_setup),
                           SCMP_SYS(mount),
                           SCMP_SYS(unshare),
                           SCMP_SYS(setns),
                           SCMP_SYS(unlink),
                           SCMP_SYS(unlinkat),
                           SCMP_SYS(rename),
                           SCMP_SYS(renameat),
                           SCMP_SYS(renameat2),
                           SCMP_SYS(mkdir),
                           SCMP_SYS(mkdirat),
                           SCMP_SYS(ftruncate),
                           SCMP_SYS(truncate),
                           SCMP_SYS(setsid),
                           SCMP_SYS(setpgid)})
    good = good && forbid(context, number, SCMP_ACT_TRAP);
  good = good && seccomp_load(context) == 0;
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
