// SPDX-License-Identifier: Apache-2.0
// The first OpenCL device of this machine.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/devices/device.hpp"

namespace cultivar {

struct OpenclDeviceOptions {
  std::filesystem::path cache;         // measured peak rates
  std::filesystem::path program = {};  // cultivar-opencl; empty: beside the running program
  // Treats a processor as a device with memory of its own, whose buffers are copies: for tests of that path.
  bool copies = false;
  std::size_t memory_bytes = std::size_t{16}
                             << 30;  // of addresses of a processor's cell, not counting its buffers
};

// The facts of a device from what its driver reports, and those that stand in for one.
Facts opencl_facts(double compute_units, double group_max, double local_bytes_max, double cache_bytes,
                   double vector_floats);

class OpenclDevice : public Device {
 public:
  // Throws MissingError when this build has no OpenCL, or the machine no device.
  explicit OpenclDevice(OpenclDeviceOptions);
  ~OpenclDevice() override;

  const Facts& facts() const override;
  DeviceInfo info() const override;
  // Of a processor: those of the target cpu on the same cores. Of other devices: multiply-adds in f32 (f16,
  // where it is faster) and copies, which cultivar-opencl measures once.
  const Ceilings& ceilings() override;
  const Ceilings& raise_ceilings() override;
  bool apart_from_host() const override;
  void describe(const Binary&, const Plan&, std::string_view source, Profile&) const override;
  Traffic traffic(double read_bytes, double written_bytes) override;
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary&, const Plan&,
                                                               std::span<const Repetition>,
                                                               double deadline_s) override;
  tl::expected<std::unique_ptr<Session>, Fault> open_contender(const ContenderFile&, const ContenderSettings&,
                                                               const Task&, const Workload&) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar
