// The state of a search as of one of its decisions, in a file: a resumed search reads it instead of applying
// all decisions up to that one. Only a cache: whatever is wrong with a file, it counts as absent, and a
// replay never reads one. It is in a folder of the user's own, not in that of the run, which others may have
// made: what is read from it is not checked for sense.
#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/breeding/breeding.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

// The states of the least recently saved runs go when they need more than this.
inline constexpr std::uintmax_t most_state_bytes = std::uintmax_t{1} << 30;

class SavedStates {
 public:
  // An empty folder: nothing is saved, and nothing is found.
  explicit SavedStates(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The Breeding has applied all decisions of the record. Replaces the run's earlier state. A failure leaves
  // none: the search does not need it.
  void save(const Record&, const Breeding&) const;
  // Gives a new Breeding the state that this program saved of this record. Returns the last decision that it
  // holds; 0: there is no such state, and the Breeding is unchanged. The operators are to be rebuilt.
  std::int64_t load(const Record&, Breeding&) const;

  std::filesystem::path file_of(const Record&) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace cultivar
