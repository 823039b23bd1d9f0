// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/card_memory.hpp"

#include <fmt/format.h>

namespace cultivar::cuda {
namespace {

// At most what a process holds beyond its allocations: its context, code, and the local memory of its
// kernels.
constexpr std::uint64_t kContext = std::uint64_t{2} << 30;

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / 0x1p30);
}

}  // namespace

Fault lack_of_memory(const CardMemory& card, std::uint64_t needed, const std::string& what) {
  const std::uint64_t own = card.own + kContext, used = card.total - card.free;
  const bool fits_alone = own <= card.total && needed <= card.total - own;
  if (!fits_alone || used <= own) return {Fault::Kind::out_of_memory, what};
  return {Fault::Kind::memory_held,
          fmt::format("{}: of the card's {}, {} are free, and other programs hold about {}", what,
                      gib(card.total), gib(card.free), gib(used - card.own))};
}

}  // namespace cultivar::cuda
