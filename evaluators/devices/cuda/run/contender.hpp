// SPDX-License-Identifier: Apache-2.0
// A contender's library as a Launchable: its calls, with the addresses and the stream of this device.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cuda/run/program.hpp"

namespace cultivar::cuda {

class Contender : public Launchable {
 public:
  // Loads the library and calls its prepare, with the tensors at these addresses.
  static tl::expected<std::unique_ptr<Contender>, Fault> open(Gpu&, const ContenderFile&,
                                                              const ContenderSettings&, const Task&,
                                                              const Workload&,
                                                              std::span<const Address> tensors);
  ~Contender() override;

  std::optional<Fault> place(std::span<const Address> tensors) override;
  std::optional<Fault> launch(double deadline_s) override;
  std::optional<Fault> results() override;

 private:
  explicit Contender(Gpu& gpu) : gpu_(gpu) {}
  Gpu& gpu_;
  std::vector<void*> tensors_;
  std::unique_ptr<PreparedContender> prepared_;
};

}  // namespace cultivar::cuda
