// A process between us and a program: whatever becomes of us, all that the program has started ends with it,
// in sessions of its own too. Its command line is "cultivar-guard", not the search's.
#pragma once

#include <sys/types.h>

namespace cultivar {

// Runs in a child of ours that was made by fork and has all signals blocked: nothing here allocates. Starts
// the program with `start`, which returns its process id (or -1), tells `told` with `arg` how that went, and
// ends as the program ends. SIGTERM, which the kernel also sends when the thread that forked dies, ends it
// and everything below it.
[[noreturn]] void stand_guard(pid_t parent, pid_t (*start)(void*), void (*told)(void*), void* arg);

}  // namespace cultivar
