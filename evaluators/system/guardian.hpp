// SPDX-License-Identifier: Apache-2.0
// A process between Cultivar and a program. If Cultivar or the program ends for any reason, the guardian ends
// all processes that the program has started, even in sessions of their own. Its command line is
// "process-guard", not the search's, so that `pkill -9 cultivar` spares it: a bwrap whose parent is killed
// while it starts would otherwise wait forever.
#pragma once

#include <sys/types.h>

namespace cultivar {

// Runs in a forked child with all signals blocked; does not allocate. Starts the program with `start`, which
// returns its process ID (or -1), reports the result to `told` with `arg`, and exits as the program exits.
// SIGTERM ends the guardian and everything below it, after `goodbye_s` in which the program may end by
// itself; the kernel also sends SIGTERM when the thread that forked dies.
[[noreturn]] void stand_guard(pid_t parent, pid_t (*start)(void*), void (*told)(void*), void* arg,
                              double goodbye_s);

}  // namespace cultivar
