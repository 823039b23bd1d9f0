// The memory that a worker shares with one cell: a place for every buffer of a plan, with a margin of canary
// bytes around the data up to the page boundary. Where the data starts changes from run to run, so that a
// remembered pointer is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/targets/cpu/cell_layout.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Where the data of every buffer starts within its region.
enum class Placement {
  start,       // at the first byte of the first page: what writes before it faults
  shifted,     // one page later
  against_end  // ends at the last page's end, to the 64 bytes of alignment: what writes behind it faults
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
  // A second descriptor through which the memory cannot be mapped for writing; -1 where /proc is missing.
  int open_read_only() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
};

class Arena {  // not thread-safe
 public:
  // `seed` decides addresses and canaries.
  static Expected<Arena> create(const Plan&, std::uint64_t seed);

  const std::vector<cell::Region>& regions() const { return regions_; }
  const SharedMemory& inputs() const { return inputs_; }
  const SharedMemory& others() const { return others_; }
  std::size_t mapped_bytes() const;  // addresses that the cell needs, guards included

  void place(Placement);
  std::uint64_t cell_address(std::size_t buffer) const { return regions_[buffer].address + offsets_[buffer]; }
  std::span<std::byte> data(std::size_t buffer) const;

  // The random pattern of one run: as f64, f32, f16 or bf16 every element is finite.
  void poison(std::size_t buffer, std::uint64_t seed) const;
  // Groups of eight bytes (and a shorter rest) that still hold it.
  std::size_t still_poisoned(std::span<const std::byte> contents, std::uint64_t seed) const;
  void write_canaries() const;
  // In words, which buffer was written outside of its bounds; nothing: none.
  std::optional<std::string> broken_canary() const;
  // Pushes every line of the buffers out of all caches, of this and every other core.
  void flush_caches() const;
  // "16 bytes behind the end of 'y'"; empty when the address is in no buffer's neighbourhood.
  std::string describe_address(std::uint64_t cell_address) const;

 private:
  std::byte* region_data(std::size_t buffer) const;
  std::vector<PlannedBuffer> buffers_;
  std::vector<cell::Region> regions_;
  std::vector<std::size_t> offsets_;
  SharedMemory inputs_, others_;
  std::uint64_t seed_ = 0;
};

// splitmix64: a good mix of a counter.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace cultivar
