// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdlib>

namespace cultivar {

void* huge_pages::allocate(std::size_t bytes) {
  constexpr std::size_t page = std::size_t{2} << 20;
  const bool large = bytes >= 2 * page;
  const std::size_t unit = large ? page : 64, rounded = (bytes + unit - 1) / unit * unit;
  void* const memory = std::aligned_alloc(unit, rounded == 0 ? unit : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  // A request; without huge pages results are the same but slower.
  if (large) ::madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}
void huge_pages::release(void* memory) {
  std::free(memory);
}

}  // namespace cultivar
