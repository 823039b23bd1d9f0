// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/arena.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "evaluators/devices/device.hpp"
#include "evaluators/system/memory_limit.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace cultivar {
namespace {

constexpr std::size_t line = 64;

std::size_t page() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Clears the top exponent bit of each 16-bit word: every element is finite in every floating type, and below
// 2 in magnitude. Or sets all exponent bits and the first one of the fraction: every element is a quiet NaN
// as f64, f32, f16 and bf16, and the upper byte of each word as e4m3 and e5m2.
constexpr std::uint64_t finite_mask = 0xbfffbfffbfffbfffU, nan_bits = 0x7ff87fc07fc07fc0U;
std::uint64_t poison_word(std::uint64_t seed, std::size_t index) {
  const std::uint64_t word = mixed(seed + index);
  return (seed & RunOptions::nan_poison) != 0 ? word | nan_bits : word & finite_mask;
}

// Calls work(begin, end) for parts of `bytes`, on several cores if there are many. Parts begin at whole
// pages. The threads end with the call: those of a pool would go on looking for work while a kernel is timed.
template <class Work>
void in_parts(std::size_t bytes, const Work& work) {
  constexpr std::size_t least = std::size_t{4} << 20, most_threads = 8;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency()),
                    parts = std::clamp<std::size_t>(bytes / least, 1, std::min(cores, most_threads)),
                    each = rounded(bytes / parts + 1, page());
  std::vector<std::jthread> helpers;
  std::size_t begin = 0;
  for (; begin + each < bytes; begin += each) {
    try {
      helpers.emplace_back([&work, begin, end = begin + each] { work(begin, end); });
    } catch (const std::system_error&) {  // no more threads are to be had
      break;
    }
  }
  work(begin, bytes);
}

}  // namespace

Expected<SharedMemory> SharedMemory::create(const char* name, std::size_t bytes) {
  SharedMemory memory;
  memory.bytes_ = std::max(rounded(bytes, page()), page());
  memory.descriptor_ = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const auto trouble = [&] {
    const int why = errno;
    const std::string limit =
        why == EFBIG ? "; the limit is " + limit_in_words(RLIMIT_FSIZE, RLIM_INFINITY) : "";
    return failure("share memory with the sandbox process",
                   fmt::format("{} bytes: {}{}", memory.bytes_, std::strerror(why), limit));
  };
  if (memory.descriptor_ < 0 || ::ftruncate(memory.descriptor_, static_cast<off_t>(memory.bytes_)) != 0)
    return trouble();
  // Sealed: if another process shrank the file, an access by this process would raise SIGBUS.
  if (::fcntl(memory.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return trouble();
  void* data = ::mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor_, 0);
  if (data == MAP_FAILED) return trouble();
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_) ::munmap(data_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

int SharedMemory::open_read_only() const {
  return ::open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(), O_RDONLY | O_CLOEXEC);
}

Expected<Arena> Arena::create(const Plan& plan, std::uint64_t seed, std::span<const Repetition> repetitions) {
  if (plan.buffers.size() > cell::max_buffers)
    return failure("open session", fmt::format("the plan has {} buffers; the limit is {}",
                                               plan.buffers.size(), cell::max_buffers));
  Arena arena;
  arena.buffers_ = plan.buffers;
  for (const Repetition& each : repetitions)
    arena.buffers_.at(each.buffer).bytes -= each.period * (each.repeats - 1);
  // The candidate chooses the size of a workspace, so it needs a bound.
  const MemoryLimit memory = memory_limit();
  auto left = static_cast<std::size_t>(memory.bytes / 2.0);
  for (const auto& buffer : arena.buffers_) {
    if (buffer.bytes > left)
      return failure("open session",
                     fmt::format("the kernel's buffers need more than half of {}; '{}' alone takes {} bytes",
                                 memory.words, buffer.name, buffer.bytes));
    left -= buffer.bytes;
  }
  arena.seed_ = seed;
  arena.offsets_.assign(plan.buffers.size(), 0);
  std::size_t input_bytes = 0, other_bytes = 0;
  // Far from the addresses where programs and libraries are loaded, and different every time.
  std::uint64_t address = 0x1000000000U + (mixed(seed) & 0x1fffff) * page();
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = arena.buffers_[i];
    const bool input = buffer.use == PlannedBuffer::Use::input;
    std::size_t& offset = input ? input_bytes : other_bytes;
    cell::Region region;
    region.bytes = rounded(std::max<std::size_t>(buffer.bytes, 1), page()) + page();
    for (const Repetition& each : repetitions)
      if (each.buffer == i) region.period = each.period, region.repeats = each.repeats;
    const std::uint64_t stored = region.bytes;
    if (region.repeats > 0) region.bytes += region.period * (region.repeats - 1);
    region.offset = offset;
    region.input = input;
    address += cell::guard_bytes;
    region.address = address;
    address += region.bytes + cell::guard_bytes + (mixed(seed ^ (i + 1)) & 0xff) * page();
    offset += stored;
    arena.regions_.push_back(region);
  }
  auto inputs = SharedMemory::create("cultivar-inputs", input_bytes);
  if (!inputs) return tl::make_unexpected(inputs.error());
  auto others = SharedMemory::create("cultivar-arena", other_bytes);
  if (!others) return tl::make_unexpected(others.error());
  arena.inputs_ = std::move(*inputs);
  arena.others_ = std::move(*others);
  return arena;
}

std::size_t Arena::region_bytes(std::size_t i) const {
  const cell::Region& region = regions_[i];
  return region.bytes - (region.repeats > 0 ? region.period * (region.repeats - 1) : 0);
}

std::size_t Arena::mapped_bytes() const {
  std::size_t total = 0;
  for (const auto& region : regions_) total += region.bytes + 2 * cell::guard_bytes;
  return total;
}

void Arena::place(Placement placement) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (regions_[i].repeats > 0) {
      offsets_[i] = 0;
      continue;
    }
    switch (placement) {
      case Placement::start:
        offsets_[i] = 0;
        break;
      case Placement::shifted:
        offsets_[i] = page();
        break;
      case Placement::against_end:
        offsets_[i] = (regions_[i].bytes - buffers_[i].bytes) / kTensorAlignment * kTensorAlignment;
        break;
    }
  }
}

std::byte* Arena::region_data(std::size_t i) const {
  return (regions_[i].input ? inputs_ : others_).data() + regions_[i].offset;
}

std::span<std::byte> Arena::data(std::size_t i) const {
  return {region_data(i) + offsets_[i], buffers_[i].bytes};
}

void Arena::fill(std::size_t buffer, std::span<const std::byte> contents) const {
  const auto bytes = data(buffer);
  in_parts(contents.size(), [&](std::size_t begin, std::size_t end) {
    std::memcpy(bytes.data() + begin, contents.data() + begin, end - begin);
  });
}

bool Arena::holds(std::size_t buffer, std::span<const std::byte> contents) const {
  const auto bytes = data(buffer);
  std::atomic<bool> same{contents.size() == bytes.size()};
  in_parts(same ? bytes.size() : 0, [&](std::size_t begin, std::size_t end) {
    if (std::memcmp(bytes.data() + begin, contents.data() + begin, end - begin) != 0) same = false;
  });
  return same;
}

void Arena::poison(std::size_t buffer, std::uint64_t seed) const {
  const auto bytes = data(buffer);
  in_parts(bytes.size(), [&](std::size_t begin, std::size_t end) {
    std::size_t i = begin;
    for (; i + 8 <= end; i += 8) {
      const std::uint64_t word = poison_word(seed, i / 8);
      std::memcpy(bytes.data() + i, &word, 8);
    }
    const std::uint64_t last = poison_word(seed, i / 8);
    std::memcpy(bytes.data() + i, &last, end - i);
  });
}

std::size_t Arena::still_poisoned(std::span<const std::byte> contents, std::uint64_t seed) const {
  std::atomic<std::size_t> all{0};
  in_parts(contents.size(), [&](std::size_t begin, std::size_t end) {
    std::size_t count = 0, i = begin;
    for (; i + 8 <= end; i += 8) {
      const std::uint64_t word = poison_word(seed, i / 8);
      if (std::memcmp(contents.data() + i, &word, 8) == 0) ++count;
    }
    // A remainder of only two bytes would match by chance once in 32,768 runs.
    const std::uint64_t last = poison_word(seed, i / 8);
    if (end - i >= 4 && std::memcmp(contents.data() + i, &last, end - i) == 0) ++count;
    all += count;
  });
  return all;
}

namespace {

std::byte canary(std::uint64_t seed, std::size_t buffer, std::size_t position) {
  return static_cast<std::byte>(mixed(seed ^ (buffer << 48) ^ position) >> 56);
}

}  // namespace

void Arena::write_canaries() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::byte* const region = region_data(i);
    const std::size_t begin = offsets_[i], end = begin + buffers_[i].bytes;
    for (std::size_t p = 0; p < begin; ++p) region[p] = canary(seed_, i, p);
    for (std::size_t p = end; p < region_bytes(i); ++p) region[p] = canary(seed_, i, p);
  }
}

std::optional<std::string> Arena::broken_canary() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::byte* const region = region_data(i);
    const std::size_t begin = offsets_[i], end = begin + buffers_[i].bytes;
    // Report the overwritten byte nearest to the buffer: it is the best clue to the mistake.
    for (std::size_t p = begin; p-- > 0;)
      if (region[p] != canary(seed_, i, p))
        return fmt::format("wrote {} before the start of '{}' ({} bytes)",
                           begin - p == 1 ? "1 byte" : fmt::format("{} bytes", begin - p), buffers_[i].name,
                           buffers_[i].bytes);
    for (std::size_t p = end; p < region_bytes(i); ++p)
      if (region[p] != canary(seed_, i, p))
        return fmt::format("wrote {} past the end of '{}' ({} bytes)",
                           p == end ? "right" : fmt::format("{} bytes", p - end), buffers_[i].name,
                           buffers_[i].bytes);
  }
  return std::nullopt;
}

#if defined(__x86_64__)
namespace {

// clflushopt does not wait for the flush before it.
bool can_flush_many() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}

}  // namespace
#endif

void Arena::flush_caches() const {
#if defined(__x86_64__)
  static const bool many = can_flush_many();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::byte* const region = region_data(i);
    if (many)
      for (std::size_t p = 0; p < region_bytes(i); p += line) asm volatile("clflushopt %0" : "+m"(region[p]));
    else
      for (std::size_t p = 0; p < region_bytes(i); p += line) _mm_clflush(region + p);
  }
  _mm_mfence();
#elif defined(__aarch64__)
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::byte* const region = region_data(i);
    for (std::size_t p = 0; p < region_bytes(i); p += line)
      asm volatile("dc civac, %0" ::"r"(region + p) : "memory");
  }
  asm volatile("dsb ish" ::: "memory");
#endif
}

std::string Arena::describe_address(std::uint64_t address) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const cell::Region& region = regions_[i];
    if (address < region.address - cell::guard_bytes ||
        address >= region.address + region.bytes + cell::guard_bytes)
      continue;
    const std::uint64_t begin = cell_address(i),
                        end = begin + buffers_[i].bytes + region.bytes - region_bytes(i);
    const auto& name = buffers_[i].name;
    if (address < begin)
      return fmt::format("{} bytes before the start of '{}' ({} bytes)", begin - address, name,
                         buffers_[i].bytes);
    if (address >= end)
      return fmt::format("{} bytes past the end of '{}' ({} bytes)", address - end, name, buffers_[i].bytes);
    if (region.input)
      return fmt::format("byte {} of the input '{}'; inputs are read-only", address - begin, name);
    return fmt::format("byte {} of '{}'", address - begin, name);
  }
  return {};
}

}  // namespace cultivar
