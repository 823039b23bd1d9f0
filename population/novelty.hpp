// SPDX-License-Identifier: Apache-2.0
// Detects duplicates. Equal variants and variants with equal machine code are the same kernel: the second one
// is not measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "evaluators/system/number_table.hpp"
#include "population/individual.hpp"

namespace cultivar {

// Keys are 64 bits of a hash. With a million individuals the probability that any two different ones collide
// is 3e-8; the cost of a collision is one variant that is not measured. A value type; not thread-safe.
class Novelty {
 public:
  std::optional<IndividualId> with_variant(std::string_view variant_id) const;
  std::optional<IndividualId> with_machine_code(std::string_view hash) const;
  // The first individual with a key stays.
  void add_variant(std::string_view variant_id, IndividualId);
  void add_machine_code(std::string_view hash, IndividualId);

 private:
  struct Keys {
    std::vector<std::uint64_t> by_id;  // from 0
    NumberTable ids;
    std::optional<IndividualId> find(std::uint64_t key) const;
    void add(std::uint64_t key, IndividualId);
  };
  Keys variants_, codes_;
};

}  // namespace cultivar
