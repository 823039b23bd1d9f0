// SPDX-License-Identifier: Apache-2.0
// The clocks that a process can read without a system call: the kernel's vDSO with its data pages (vvar) and
// the time stamp counter.
#pragma once

namespace cultivar::cell {

// Takes them away from this process and its future threads; call it before the first thread starts. An equal
// image without data remains in place of the vDSO: the dynamic loader reads its tables, and the clock
// functions of libc make system calls through it, about which the seccomp filter decides. Null on success,
// otherwise what this system does not permit.
const char* take_clocks_away();

}  // namespace cultivar::cell
