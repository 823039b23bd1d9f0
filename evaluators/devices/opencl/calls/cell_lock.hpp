// SPDX-License-Identifier: Apache-2.0
// What a cell gives up once its kernels are compiled and loaded: everything but memory, waiting, and the
// socket to its worker.
#pragma once

namespace cultivar::opencl {

// For all threads of this process, for ever. Another system call ends the process with SIGSYS. False: this
// system has no such filters.
bool lock_cell();

}  // namespace cultivar::opencl
