// SPDX-License-Identifier: Apache-2.0
// The judge's own kernels (own_kernels.cu), loaded on one device: poison, guards, checksums, windows, the
// blocking kernel, clock stamps, and measurement of peak rates. Each call queues one launch and returns
// immediately.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/run/driver.hpp"

namespace cultivar::cuda {

struct Region {
  std::uint64_t start = 0, bytes = 0;
};
inline constexpr std::size_t max_regions = 128;  // of a launch: they are a parameter

// The machine code of these kernels, from the cache or compiled by NVRTC. `program`: see CudaCompilerOptions.
// Throws MissingError.
std::vector<std::byte> own_machine_code(const std::string& architecture, const std::filesystem::path& cache,
                                        const std::filesystem::path& program);
// The same for another source of the judge's, which must define cultivar_nothing.
std::vector<std::byte> own_machine_code(const std::string& source, const std::string& architecture,
                                        const std::filesystem::path& cache,
                                        const std::filesystem::path& program);

class OwnKernels {  // not thread-safe; lives as long as the context
 public:
  OwnKernels(const Driver&, Stream, std::span<const std::byte> machine_code, int multiprocessors,
             int shared_bytes);

  Result poison(Address to, std::uint64_t bytes, std::uint64_t seed) const;
  // Adds its results to *count and *sum.
  Result still_poisoned(Address at, std::uint64_t bytes, std::uint64_t seed, Address count) const;
  Result checksum(Address at, std::uint64_t bytes, std::uint64_t seed, Address sum) const;
  // `to` must be a multiple of 16; `from` is arbitrary. Reads up to 3 bytes past the end of the source.
  Result window(Address to, Address from, std::uint64_t bytes) const;
  Result gather(Address from, Address elements, std::uint64_t count, std::uint32_t width, Address to) const;
  Result write_guards(std::span<const Region>, std::uint64_t seed) const;
  Result check_guards(std::span<const Region>, std::uint64_t seed, Address low, Address high) const;
  Result wait(Address flag, std::uint32_t token, Address gave_up, std::uint64_t limit_ns) const;
  Result stamp(Address out) const;  // two numbers per multiprocessor: ns, cycles
  Result nothing() const;           // ends after everything queued before it
  // Overwrites the shared memory of every multiprocessor, and what is reserved of it for the system.
  Result scrub(std::uint64_t seed, bool reserved_too) const;
  Result fill_registers(std::uint64_t seed) const;  // overwrites the registers of every multiprocessor
  Result copy(Address to, Address from, std::uint64_t bytes) const;
  Result read(Address from, std::uint64_t bytes, std::uint32_t passes, Address out) const;
  // Stores the number of operations in `flops`.
  Result matrix(std::uint32_t iterations, Address out, int compute_capability, double* flops) const;

 private:
  enum Name {
    kPoison,
    kStillPoisoned,
    kChecksum,
    kWindow,
    kGather,
    kWriteGuards,
    kCheckGuards,
    kWait,
    kStamp,
    kNothing,
    kCopy,
    kRead,
    kMatrix,
    kScrub,
    kFillRegisters,
    kCount
  };
  template <class... Arguments>
  Result launch(Name, unsigned blocks_x, unsigned blocks_y, unsigned threads, Arguments...) const;
  unsigned blocks_for(std::uint64_t items) const;

  const Driver& driver_;
  Stream stream_;
  unsigned multiprocessors_, shared_bytes_;
  std::array<Function, kCount> functions_{};
};

// Local memory outlives a launch: it is one pool of the context, in which every thread that can be resident
// has its place. A kernel that reads its local arrays before it writes them finds what lay there before. This
// overwrites it between runs.
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
