// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/calls/cell_lock.hpp"

#include <seccomp.h>
#include <sys/mman.h>

#include <initializer_list>

#include "evaluators/devices/opencl/code/cell_layout.hpp"

namespace cultivar::opencl {

bool lock_cell() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (context == nullptr) return false;
  bool good = seccomp_attr_set(context, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
  for (const int number :
       {SCMP_SYS(futex), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),
        SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(restart_syscall), SCMP_SYS(sched_yield),
        SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(clock_gettime),
        SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep), SCMP_SYS(sched_getaffinity), SCMP_SYS(getpid),
        SCMP_SYS(gettid)})
    good = good && (number < 0 || seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0) == 0);
  // Memory, never executable.
  good =
      good &&
      seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                       SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)) == 0 &&
      seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
  for (const int number : {SCMP_SYS(sendto), SCMP_SYS(recvfrom)})
    good = good && seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 1,
                                    SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(socket_descriptor))) == 0;
  good = good && seccomp_load(context) == 0;
  seccomp_release(context);
  return good;
}

}  // namespace cultivar::opencl
