// What the build could not make of the contenders that Cultivar ships, and why; empty: it made it. CMake
// writes it.
#pragma once

namespace cultivar {

extern const char* const kCublasAbsent;
extern const char* const kCudnnAbsent;
extern const char* const kFlashAttention3Absent;

}  // namespace cultivar
