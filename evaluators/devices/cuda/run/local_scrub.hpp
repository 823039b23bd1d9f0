// SPDX-License-Identifier: Apache-2.0
// Local memory outlives a launch: it is one pool of the context, in which every thread that can be resident
// has its place. A kernel that reads its local arrays before it writes them finds what lay there before. This
// overwrites it between runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar::cuda {

class LocalScrub {  // not thread-safe; lives as long as the context
 public:
  // `program`: see CudaCompilerOptions.
  LocalScrub(const Driver&, Stream, std::string architecture, std::filesystem::path cache,
             std::filesystem::path program, int multiprocessors, int threads_of_multiprocessor);
  // Compiles and loads what scrub() needs for frames of this size; throws MissingError. Takes a third of a
  // second the first time.
  void prepare(std::uint32_t bytes);
  // Queues one launch that overwrites all local memory that a kernel with `bytes` per thread can reach;
  // prepares if necessary. A kernel without a frame can reach some by inline assembly, so 0 is no reason to
  // leave it out.
  Result scrub(std::uint32_t bytes, std::uint64_t seed);
  static std::string source(std::uint32_t bytes);  // of the kernel that this compiles

 private:
  const Driver& driver_;
  Stream stream_;
  std::string architecture_;
  std::filesystem::path cache_, program_;
  unsigned multiprocessors_, threads_;
  std::map<std::uint32_t, Function> functions_;  // by the size of the frame
};

}  // namespace cultivar::cuda
