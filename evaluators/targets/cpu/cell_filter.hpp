// The system calls that a cell gives up. Both filters hold for ever, for all threads that exist or the
// caller's alone.
#pragma once

namespace cultivar::cell {

// Before dlopen, for the calling thread: reading files and mapping them, but no network, no new process, no
// signal.
bool lock_for_loading();
// Before the first kernel, for all threads: waiting, ending and anonymous memory. Anything else raises
// SIGSYS, and the handler ends the process with `fatal_call`, which the kernel itself answers with death.
bool lock_for_running();
// Dies of SIGSYS.
[[noreturn]] void fatal_call();

}  // namespace cultivar::cell
