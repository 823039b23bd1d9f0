// SPDX-License-Identifier: Apache-2.0
// The seccomp filters of a cell. Neither can be removed. One applies to all existing threads, the other to
// the calling thread only.
#pragma once

namespace cultivar::cell {

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
