// This machine's cores as a device.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/targets/target.hpp"

namespace cultivar {

struct CpuDeviceOptions {
  std::filesystem::path cache;      // where measured ceilings and the kernels that measure them are kept
  std::filesystem::path cell = {};  // cultivar-cell; empty: beside the running program
  std::size_t memory_bytes = std::size_t{2} << 30;  // that a candidate may have besides its buffers
};

class CpuDevice : public Device {
 public:
  // Throws MissingError when cultivar-cell is missing.
  explicit CpuDevice(CpuDeviceOptions);
  ~CpuDevice() override;

  // num_cores, l1_bytes, l2_bytes, l3_bytes, vector_bits, page_bytes.
  const Facts& facts() const override;
  std::string description() const override;
  // Measured with kernels of our own in a cell, with all cores; kept in the cache for this model and core
  // count. Throws MissingError when they cannot be measured.
  const Ceilings& ceilings() override;
  const Ceilings& raise_ceilings() override;
  std::string isolation() const override;
  std::string weakness() const override;
  // Faults: launch_failed (the plan asks for what is not there), load_failed (the object does not load).
  tl::expected<std::unique_ptr<Session>, Fault> open(const Binary&, const Plan&, double deadline_s) override;
  tl::expected<std::unique_ptr<Session>, Fault> open_contender(const std::filesystem::path&, const Task&,
                                                               const Workload&, double deadline_s) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
