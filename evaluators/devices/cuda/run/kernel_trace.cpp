// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/kernel_trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/run/cupti.hpp"

namespace cultivar::cuda {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kBufferAlignment = 8;

// CUPTI's callbacks get only its buffers and run on its own threads, so deliveries are collected in a global
// object.
struct Delivered {
  std::mutex mutex;
  int (*next_record)(std::uint8_t*, std::size_t, void**) = nullptr;
  std::uint64_t since = 0;  // CUPTI's clock; records of earlier kernels may be delivered late
  std::vector<TracedKernel> kernels;
};
Delivered& delivered() {
  static Delivered instance;
  return instance;
}

void request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void complete_buffer(Context, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Delivered& to = delivered();
  const std::lock_guard lock(to.mutex);
  void* record = nullptr;
  while (valid > 0 && to.next_record(buffer, valid, &record) == cupti::success) {
    const auto* kernel = static_cast<const cupti::KernelRecord*>(record);
    if (kernel->kind != cupti::kind_kernel && kernel->kind != cupti::kind_concurrent_kernel) continue;
    if (kernel->start < to.since) continue;
    to.kernels.push_back({kernel->name == nullptr ? "" : kernel->name,
                          static_cast<double>(kernel->start) * 1e-9, static_cast<double>(kernel->end) * 1e-9,
                          std::to_array(kernel->grid), std::to_array(kernel->block)});
  }
  std::free(buffer);
}

}  // namespace

struct KernelTrace::Library {
  int (*register_callbacks)(void (*)(std::uint8_t**, std::size_t*, std::size_t*),
                            void (*)(Context, std::uint32_t, std::uint8_t*, std::size_t,
                                     std::size_t)) = nullptr;
  int (*enable)(int) = nullptr;
  int (*disable)(int) = nullptr;
  int (*flush_all)(std::uint32_t) = nullptr;
  int (*timestamp)(std::uint64_t*) = nullptr;
  bool registered = false;
};

KernelTrace::KernelTrace() {
  void* const handle = open_cupti(&obstacle_);
  if (handle == nullptr) return;
  auto library = std::make_unique<Library>();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr && obstacle_.empty()) obstacle_ = fmt::format("CUPTI lacks {}", name);
  };
  find(library->register_callbacks, "cuptiActivityRegisterCallbacks");
  find(library->enable, "cuptiActivityEnable");
  find(library->disable, "cuptiActivityDisable");
  find(library->flush_all, "cuptiActivityFlushAll");
  find(library->timestamp, "cuptiGetTimestamp");
  find(delivered().next_record, "cuptiActivityGetNextRecord");
  if (obstacle_.empty()) library_ = std::move(library);
}

KernelTrace::~KernelTrace() = default;

bool KernelTrace::begin() {
  if (!library_) return false;
  if (!library_->registered) {
    if (const int code = library_->register_callbacks(request_buffer, complete_buffer);
        code != cupti::success) {
      obstacle_ = fmt::format("CUPTI refused to trace (error {})", code);
      library_.reset();
      return false;
    }
    library_->registered = true;
  }
  {
    const std::lock_guard lock(delivered().mutex);
    delivered().kernels.clear();
    if (library_->timestamp(&delivered().since) != cupti::success) delivered().since = 0;
  }
  if (const int code = library_->enable(cupti::kind_concurrent_kernel); code != cupti::success) {
    obstacle_ = fmt::format("CUPTI cannot record kernels (error {})", code);
    library_.reset();
    return false;
  }
  return true;
}

std::vector<TracedKernel> KernelTrace::end() {
  if (!library_) return {};
  library_->flush_all(1);
  library_->disable(cupti::kind_concurrent_kernel);
  const std::lock_guard lock(delivered().mutex);
  if (delivered().kernels.empty()) obstacle_ = "CUPTI delivered no records";
  return std::exchange(delivered().kernels, {});
}

namespace {

using Shape = std::array<std::int64_t, 6>;  // grid, block

Shape shape_of(const auto& grid, const auto& block) {
  Shape shape{};
  std::copy_n(std::begin(grid), 3, shape.begin());
  std::copy_n(std::begin(block), 3, shape.begin() + 3);
  return shape;
}

}  // namespace

std::optional<Fault> compare_trace(const Plan& plan, bool foreign, const std::vector<TracedKernel>& seen,
                                   double event_seconds) {
  if (seen.empty()) return std::nullopt;  // CUPTI had no buffer for the records, so nothing is known
  std::vector<Shape> wanted, found;
  std::vector<std::string> words;
  for (const PlannedKernel& kernel : plan.kernels) {
    const Geometry geometry(kernel.launch);
    wanted.push_back(shape_of(geometry.grid, geometry.block));
  }
  double begin = 0.0, end = 0.0;
  for (const TracedKernel& kernel : seen) {
    // The judge's own; the compiler refuses kernels with such names.
    if (kernel.name.starts_with("cultivar_")) continue;
    begin = found.empty() ? kernel.begin_s : std::min(begin, kernel.begin_s);
    end = found.empty() ? kernel.end_s : std::max(end, kernel.end_s);
    found.push_back(shape_of(kernel.grid, kernel.block));
    words.push_back(fmt::format("{} of {} blocks of {}", kernel.name, fmt::join(kernel.grid, " x "),
                                fmt::join(kernel.block, " x ")));
  }
  if (foreign && found.empty()) return std::nullopt;  // only copies
  std::ranges::sort(wanted);
  std::ranges::sort(found);
  if (wanted != found && !foreign) {
    if (std::ranges::includes(wanted, found)) return std::nullopt;
    return Fault{
        Fault::Kind::forbidden_call,
        fmt::format("the kernels that ran are not those of the plan; CUPTI saw: {}", fmt::join(words, ", "))};
  }
  // Event times also include the gaps between kernels and the zeroing of workspaces.
  const double span = end - begin;
  if (event_seconds < 0.95 * span - 5e-6 || event_seconds > 2.0 * span + 500e-6)
    return Fault{Fault::Kind::idle_activity,
                 fmt::format("the kernels took {:.1f} us by CUPTI's records but {:.1f} us by CUDA events",
                             1e6 * span, 1e6 * event_seconds)};
  return std::nullopt;
}

}  // namespace cultivar::cuda
