// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/pageable_memory.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>

#include "evaluators/devices/cuda/run/gpu.hpp"

namespace {

// From NVIDIA's open kernel modules, uvm_linux_ioctl.h and uvm_types.h.
constexpr unsigned long kUvmInitialize = 0x30000001;
constexpr std::uint64_t kDisableHmm = 1;
struct UvmInitialize {
  std::uint64_t flags;
  std::uint32_t status;
};

}  // namespace

// The driver opens its memory manager with this call, and programs with this symbol take precedence over
// libc's. The only change: HMM is not requested. A kernel module that does not know the flag is asked again
// without it.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request != kUvmInitialize || argument == nullptr)
    return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
  auto* const order = static_cast<UvmInitialize*>(argument);
  const std::uint64_t flags = order->flags;
  order->flags = flags | kDisableHmm;
  const long result = ::syscall(SYS_ioctl, fd, request, argument);
  if (result == 0 && order->status == 0) return 0;
  order->flags = flags;
  order->status = 0;
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

namespace cultivar::cuda {

std::string pageable_memory_obstacle(const Gpu& gpu) {
  int reachable = 0;
  if (gpu.driver().DeviceGetAttribute(&reachable, attribute::pageable_access, gpu.index()) !=
          result::success ||
      reachable == 0)
    return {};
  return fmt::format(
      "kernels on {} can read this process's memory (HMM or ATS): one that guessed the address of the "
      "expected values could copy them; load the kernel module nvidia-uvm with uvm_disable_hmm=1 (a line "
      "'options nvidia-uvm uvm_disable_hmm=1' in /etc/modprobe.d, then a restart)",
      gpu.name());
}

}  // namespace cultivar::cuda
