// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/residents.hpp"

#include <algorithm>
#include <cstring>

#include "evaluators/devices/cuda/run/gpu.hpp"

namespace cultivar::cuda {
namespace {

constexpr std::size_t kMostResidents = 12, kMostStaged = 4;
constexpr std::size_t kStretchPadding = 16;  // because windows are read in whole words
// Memory that the device accesses directly cannot be paged out, so this limits it per stretch.
constexpr std::size_t kMostStagedBytes = std::size_t{1} << 30;

template <class Places>
auto find(Places& places, std::uint64_t stretch) {
  return std::ranges::find_if(places, [&](const auto& place) { return place.stretch == stretch; });
}

template <class Places>
auto& oldest_or_new(Places& places, std::size_t most) {
  if (places.size() < most) return places.emplace_back();
  return *std::ranges::min_element(places, {}, [](const auto& place) { return place.last_used; });
}

}  // namespace

Residents::~Residents() {
  for (const Staged& staged : staged_)
    if (!gpu_.lost()) gpu_.driver().MemFreeHost(staged.memory);
}

void Residents::stage(std::uint64_t stretch, std::span<const std::byte> whole) {
  if (gpu_.lost() || whole.size() > kMostStagedBytes) return;
  if (find(residents_, stretch) != residents_.end() || find(staged_, stretch) != staged_.end()) return;
  Staged& place = oldest_or_new(staged_, kMostStaged);
  place.stretch = 0;
  if (place.bytes < whole.size()) {
    if (place.memory != nullptr) gpu_.driver().MemFreeHost(place.memory);
    place.memory = nullptr;
    place.bytes = 0;
    if (gpu_.driver().MemHostAlloc(&place.memory, whole.size(), 0) != result::success) {
      place.memory = nullptr;
      return;
    }
    place.bytes = whole.size();
  }
  std::memcpy(place.memory, whole.data(), whole.size());
  place.stretch = stretch;
  place.last_used = ++uses_;
}

Address Residents::get(std::uint64_t stretch, std::span<const std::byte> whole) {
  ++uses_;
  if (const auto known = find(residents_, stretch); known != residents_.end()) {
    known->last_used = uses_;
    return known->memory.address();
  }
  const std::size_t bytes = whole.size() + kStretchPadding;
  Resident* place = &oldest_or_new(residents_, kMostResidents);
  place->stretch = 0;
  if (place->memory.size() != bytes) {
    place->memory = DeviceMemory();
    auto memory = DeviceMemory::allocate(gpu_, bytes);
    if (!memory) {  // evict all others
      residents_.clear();
      place = &residents_.emplace_back();
      memory = DeviceMemory::allocate(gpu_, bytes);
    }
    if (!memory) return 0;
    place->memory = std::move(*memory);
  }
  const auto staged = find(staged_, stretch);
  const void* const from = staged != staged_.end() ? staged->memory : whole.data();
  if (gpu_.driver().MemcpyHtoDAsync(place->memory.address(), from, whole.size(), gpu_.stream()) !=
      result::success)
    return 0;
  place->stretch = stretch;
  place->last_used = uses_;
  return place->memory.address();
}

}  // namespace cultivar::cuda
