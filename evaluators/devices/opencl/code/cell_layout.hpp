// SPDX-License-Identifier: Apache-2.0
// What a worker and its OpenCL cell say to each other. A cell is one process of cultivar-opencl for one
// kernel on one workload. The job is JSON in its command line; requests and replies are these structures,
// through a socket of packets. Where the device is the processor, kernels share the cell's memory, so the
// worker only compares numbers of a reply with what it measures itself, and shows its text to people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cultivar::opencl {

inline constexpr std::size_t most_buffers = 64;
// Where kernels of a check build write their counters, in memory that the cell maps.
inline constexpr std::uint64_t counters_address = 0x510000000000;
inline constexpr std::uint64_t most_counters = std::uint64_t{1} << 24;
// The first kernel in the plan of a check build (judge/check_build_runs.hpp), which clears them; here the
// cell does.
inline constexpr std::string_view check_begin = "cultivar_check_begin";
// File descriptors that the cell inherits at start.
inline constexpr int input_descriptor = 3, arena_descriptor = 4, socket_descriptor = 5;

struct Request {
  enum class Kind : std::uint32_t {
    nothing,  // answers
    prepare,  // makes OpenCL's buffers of the addresses, and sets the kernels' arguments
    run,      // runs the whole plan once
    lock      // from now on no files, programs and sockets (a filter of system calls)
  } kind = Kind::nothing;
  std::uint32_t number = 0;
  std::uint64_t addresses[most_buffers] = {};  // of prepare: where the data of each buffer begins in the cell
};

struct Reply {
  enum class Kind : std::uint32_t {
    ready,     // after the start: kernels are loaded
    done,      // a request was answered
    refused,   // OpenCL does not accept a launch: `text`
    failed,    // the device ended a kernel: `text`
    changed,   // an input differs after the run; only where the device has memory of its own
    unusable,  // the start failed: `text`
    signal     // the process is about to end by the signal `number`
  } kind = Kind::ready;
  std::uint32_t number = 0;
  double seconds = 0.0;       // of run: from the start of the first command to the end of the last one
  std::uint64_t address = 0;  // of signal and of changed: in the memory that both map
  char text[1000] = {};
};

}  // namespace cultivar::opencl
