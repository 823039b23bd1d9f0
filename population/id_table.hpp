// Individuals by a hash. A run has millions of entries, so they lie in one array each, without nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cultivar {

// 12 bytes for a slot, of which at most three quarters are taken. A value type; not thread-safe.
class IdTable {
 public:
  std::optional<std::uint32_t> find(std::uint64_t key) const {
    if (ids_.empty()) return std::nullopt;
    const std::size_t slot = slot_of(key);
    return ids_[slot] == 0 ? std::nullopt : std::optional(ids_[slot]);
  }

  // The first id of a key stays. Ids are not 0.
  void add(std::uint64_t key, std::uint32_t id) {
    if (4 * (count_ + 1) > 3 * ids_.size()) grow();
    const std::size_t slot = slot_of(key);
    if (ids_[slot] != 0) return;
    keys_[slot] = key;
    ids_[slot] = id;
    ++count_;
  }

 private:
  // Of the key, or the free one where it belongs.
  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = ids_.size() - 1;
    std::size_t slot = static_cast<std::size_t>(key ^ (key >> 32U)) & mask;
    while (ids_[slot] != 0 && keys_[slot] != key) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    IdTable larger;
    larger.keys_.resize(ids_.empty() ? 64 : 2 * ids_.size());
    larger.ids_.resize(larger.keys_.size());
    for (std::size_t i = 0; i < ids_.size(); ++i)
      if (ids_[i] != 0) larger.add(keys_[i], ids_[i]);
    *this = std::move(larger);
  }

  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> ids_;  // 0: free
  std::size_t count_ = 0;
};

}  // namespace cultivar
