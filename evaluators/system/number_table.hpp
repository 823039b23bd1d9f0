// SPDX-License-Identifier: Apache-2.0
// Finds numbers by a hash of what they stand for, which their owner keeps. A run has millions of them, so
// they lie in one array, without nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cultivar {

// 4 bytes for a slot, of which 44 to 67 % are taken. A value type; not thread-safe.
class NumberTable {
 public:
  // The number with this hash for which same(number) is true.
  template <class Same>
  std::optional<std::uint32_t> find(std::uint64_t hash, const Same& same) const {
    if (slots_.empty()) return std::nullopt;
    std::size_t at = first(hash);
    while (slots_[at] != 0 && !same(slots_[at] - 1)) at = after(at);
    return slots_[at] == 0 ? std::nullopt : std::optional(slots_[at] - 1);
  }

  // A number that find() does not find; below 2^32 - 1. hash_of(number) is asked of all when the table grows.
  template <class HashOf>
  void add(std::uint32_t number, const HashOf& hash_of) {
    if (3 * (count_ + 1) > 2 * slots_.size()) {
      const std::vector<std::uint32_t> all = std::move(slots_);
      slots_.assign(all.size() + all.size() / 2 + 16, 0);
      for (const std::uint32_t slot : all)
        if (slot != 0) put(slot, hash_of(slot - 1));
    }
    put(number + 1, hash_of(number));
    ++count_;
  }

 private:
  // Fibonacci hashing, with the high half of the product: equal low bits of hashes do no harm.
  std::size_t first(std::uint64_t hash) const {
    return static_cast<std::size_t>(((hash * 0x9e3779b97f4a7c15U) >> 32U) * slots_.size() >> 32U);
  }
  std::size_t after(std::size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  void put(std::uint32_t slot, std::uint64_t hash) {
    std::size_t at = first(hash);
    while (slots_[at] != 0) at = after(at);
    slots_[at] = slot;
  }

  std::vector<std::uint32_t> slots_;  // 0: free; otherwise a number, plus 1
  std::size_t count_ = 0;
};

}  // namespace cultivar
