// SPDX-License-Identifier: Apache-2.0
// What a cell takes away from itself before it runs a candidate: the clocks that a process can read without a
// system call (the kernel's vDSO with its data pages and the time stamp counter), and system calls, by
// seccomp filters that cannot be removed. The first filter applies to the calling thread only, the second to
// all.
#pragma once

namespace cultivar::cell {

// Takes them away from this process and its future threads; call it before the first thread starts. An equal
// image without data remains in place of the vDSO: the dynamic loader reads its tables, and the clock
// functions of libc make system calls through it, about which the seccomp filter decides. Null on success,
// otherwise what this system does not permit.
const char* take_clocks_away();

// Called before dlopen; applies to the calling thread. Allows reading and mapping files, and what follows
// until the second filter.
bool lock_for_loading();
// Called before the first kernel; applies to all threads. Allows waiting without a timeout, ending
// the process, and anonymous memory. Any other call raises SIGSYS, and the signal handler ends the process
// with `fatal_call`, for which the operating system kills it.
bool lock_for_running();
// Kills the process with SIGSYS.
[[noreturn]] void fatal_call();

}  // namespace cultivar::cell
