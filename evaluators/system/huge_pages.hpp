// SPDX-License-Identifier: Apache-2.0
// Memory for hundreds of megabytes. With 4 KiB pages, most of the time of reading small pieces at random
// places would go into address translation, and that of filling them into page faults.
#pragma once

#include <cstddef>
#include <new>

namespace cultivar {

namespace huge_pages {
void* allocate(std::size_t bytes);  // throws std::bad_alloc
void release(void*);
}  // namespace huge_pages

// For vectors whose elements are all written after they have grown: new elements are not set to zero.
template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(huge_pages::allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) { huge_pages::release(memory); }
  void construct(T* place) { ::new (static_cast<void*>(place)) T; }
  template <class... Args>
  void construct(T* place, Args&&... args) {
    ::new (static_cast<void*>(place)) T(static_cast<Args&&>(args)...);
  }
  friend bool operator==(const HugePages&, const HugePages&) { return true; }
};

}  // namespace cultivar
