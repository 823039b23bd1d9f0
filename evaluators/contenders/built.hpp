// SPDX-License-Identifier: Apache-2.0
// For each contender that Cultivar ships, why the build could not make it; empty if it was built. Written by
// CMake.
#pragma once

namespace cultivar {

extern const char* const kClblastAbsent;
extern const char* const kCublasAbsent;
extern const char* const kCudnnAbsent;
extern const char* const kFlashAttention3Absent;

}  // namespace cultivar
