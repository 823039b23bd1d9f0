// SPDX-License-Identifier: Apache-2.0
// The cores of this machine as a device, with its peak rates.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "evaluators/devices/device.hpp"

namespace cultivar {

// From /proc, /sys and the processor itself.
std::string processor_model();  // "AMD EPYC 9654"
Facts cpu_facts();

struct CpuDeviceOptions {
  std::filesystem::path cache;      // holds measured peak rates and the compiled kernels that measure them
  std::filesystem::path cell = {};  // the path of cultivar-cell; empty: in the folder of the running program
  std::size_t memory_bytes = std::size_t{2} << 30;  // a candidate's limit, not counting its buffers
};

class CpuDevice : public Device {
 public:
  // Throws MissingError when cultivar-cell is missing.
  explicit CpuDevice(CpuDeviceOptions);
  ~CpuDevice() override;

  // num_cores, l1_bytes, l2_bytes, l3_bytes, vector_bits, page_bytes.
  const Facts& facts() const override;
  DeviceInfo info() const override;  // the compiler's weakness covers the cells too
  // Measured by Cultivar's own kernels in a cell, with all cores; cached per processor model and core count.
  // Throws MissingError when they cannot be measured.
  const Ceilings& ceilings() override;
  const Ceilings& raise_ceilings() override;
  // How wide the vectors are that its code uses, and its innermost loops.
  void describe(const Binary&, const Plan&, std::string_view source, Profile&) const override;
  Traffic traffic(double read_bytes, double written_bytes) override;
  // Faults: launch_failed (the plan needs a resource that this device lacks), load_failed (the object does
  // not load).
  std::size_t least_period() const override;  // a page
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary&, const Plan&,
                                                               std::span<const Repetition>,
                                                               double deadline_s) override;
  tl::expected<std::unique_ptr<Session>, Fault> open_contender(const ContenderFile&, const ContenderSettings&,
                                                               const Task&, const Workload&) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Peak rates of this machine, measured with Cultivar's own kernels in cells, as candidates are.

// `name` identifies the machine (processor model and core count). If `cache` holds a file for it, returns
// that file's values. Otherwise measures with all cores of the device, which takes about two seconds, and
// writes the file. Throws MissingError when a kernel fails.
Ceilings cpu_ceilings(Device&, const std::string& name, const std::filesystem::path& cache,
                      bool again = false);

// Measures Device::traffic with all cores; buffers of more than 512 MiB together are scaled down, and the
// times up. Throws MissingError when a kernel fails.
Traffic cpu_traffic(Device&, const std::filesystem::path& cache, double read_bytes, double written_bytes);

}  // namespace cultivar
