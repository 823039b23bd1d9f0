// Who is new. Equal variants and variants with equal machine code are the same kernel: the second is not
// measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "population/individual.hpp"

namespace cultivar {

// Keys are 64 bits of a hash: at a million individuals the chance that any two unlike ones are taken for
// equal is 3e-8, and the price is one variant left unmeasured. A value; not thread-safe.
class Novelty {
 public:
  std::optional<IndividualId> with_variant(std::string_view variant_id) const;
  std::optional<IndividualId> with_machine_code(std::string_view hash) const;
  // The first to come stays.
  void add_variant(std::string_view variant_id, IndividualId);
  void add_machine_code(std::string_view hash, IndividualId);

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> variants_, codes_;
};

}  // namespace cultivar
