// SPDX-License-Identifier: Apache-2.0
// The memory that a worker shares with one cell (the sandbox process of a candidate): one region per buffer
// of the plan, with canary bytes between the data and the page boundary. The start of the data changes from
// run to run, so a pointer saved from an earlier run is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/devices/cpu/cell_layout.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Where the data of each buffer starts within its region.
enum class Placement {
  start,       // at the first byte of the first page: a write before it faults
  shifted,     // one page later
  against_end  // ends at the end of the last page, up to 64-byte alignment: a write past it faults
};

// A memfd mapped into this process. Its size is sealed.
class SharedMemory {
 public:
  static Expected<SharedMemory> create(const char* name, std::size_t bytes);
  SharedMemory() = default;
  SharedMemory(SharedMemory&&) noexcept;
  SharedMemory& operator=(SharedMemory&&) noexcept;
  ~SharedMemory();
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  int descriptor() const { return descriptor_; }
  // Another descriptor of the same memory that cannot be mapped for writing; -1 if /proc is missing.
  int open_read_only() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
};

class Arena {  // not thread-safe
 public:
  // `seed` determines addresses and canaries.
  static Expected<Arena> create(const Plan&, std::uint64_t seed,
                                std::span<const Repetition> repetitions = {});

  const std::vector<cell::Region>& regions() const { return regions_; }
  const SharedMemory& inputs() const { return inputs_; }
  const SharedMemory& others() const { return others_; }
  std::size_t mapped_bytes() const;  // address space that the cell needs, including guards

  void place(Placement);
  std::uint64_t cell_address(std::size_t buffer) const { return regions_[buffer].address + offsets_[buffer]; }
  std::span<std::byte> data(std::size_t buffer) const;  // of a buffer that repeats: once, then what follows

  void fill(std::size_t buffer, std::span<const std::byte> contents) const;
  bool holds(std::size_t buffer, std::span<const std::byte> contents) const;
  // Fills a buffer with the random pattern of one run. Every element is finite as f64, f32, f16 and bf16, or
  // NaN as all of them (RunOptions::nan_poison of the seed).
  void poison(std::size_t buffer, std::uint64_t seed) const;
  // The number of 8-byte groups (counting a shorter remainder) that still hold the pattern.
  std::size_t still_poisoned(std::span<const std::byte> contents, std::uint64_t seed) const;
  void write_canaries() const;
  // Describes the first out-of-bounds write found; nullopt if there is none.
  std::optional<std::string> broken_canary() const;
  // Evicts every cache line of the buffers from the caches of all cores.
  void flush_caches() const;
  // For example "16 bytes past the end of 'y'"; empty if the address is not near any buffer.
  std::string describe_address(std::uint64_t cell_address) const;

 private:
  std::byte* region_data(std::size_t buffer) const;
  std::size_t region_bytes(std::size_t buffer) const;  // of the memory, not of the cell's addresses
  std::vector<PlannedBuffer> buffers_;                 // with the bytes that have memory of their own
  std::vector<cell::Region> regions_;
  std::vector<std::size_t> offsets_;
  SharedMemory inputs_, others_;
  std::uint64_t seed_ = 0;
};

// splitmix64: mixes the bits of a counter.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace cultivar
