// SPDX-License-Identifier: Apache-2.0
// A compiled variant loaded on a device, with its plan as launches: arguments packed, tensor maps encoded,
// attributes set. Does no timing and no checks.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar::cuda {

// What a session launches. Not thread-safe; the Gpu must outlive it.
class Launchable {
 public:
  virtual ~Launchable() = default;
  // Sets the addresses of the plan's buffers for the following launches.
  virtual std::optional<Fault> place(std::span<const Address> buffers) = 0;
  // Queues all work on the Gpu's stream.
  virtual std::optional<Fault> launch(double deadline_s) = 0;
  // Completes the outputs when the work of the last launch has ended; not timed.
  virtual std::optional<Fault> results() { return std::nullopt; }
  // The most local memory that a thread uses; 0 if unknown.
  virtual std::uint32_t local_bytes() const { return 0; }
};

class Program : public Launchable {
 public:
  static tl::expected<std::unique_ptr<Program>, Fault> load(Gpu&, const std::filesystem::path& cubin,
                                                            const Plan&);
  ~Program() override;
  Program(const Program&) = delete;

  // Updates every pointer and every tensor map.
  std::optional<Fault> place(std::span<const Address> buffers) override;
  // Queues zeroing of workspaces, then the kernels in order; does not wait.
  std::optional<Fault> launch(double deadline_s) override;
  std::uint32_t local_bytes() const override { return local_bytes_; }

 private:
  struct Kernel {
    Function function = nullptr;
    LaunchConfig config;
    std::vector<LaunchAttribute> attributes;
    std::vector<std::vector<std::byte>> storage;  // one per argument, except tensor maps
    std::vector<void*> parameters;
  };
  Program(Gpu& gpu, const Plan& plan) : gpu_(gpu), plan_(plan) {}
  std::optional<Fault> prepare(const PlannedKernel&, Kernel&, bool first);
  std::optional<Fault> check_residence(const PlannedKernel&, Function) const;

  Gpu& gpu_;
  Plan plan_;
  Module module_ = nullptr;
  std::vector<Kernel> kernels_;
  std::vector<TensorMap> maps_;
  std::vector<Address> buffers_;
  std::uint32_t local_bytes_ = 0;
};

// A contender's library as a Launchable: its calls, with the addresses and the stream of this device.
class Contender : public Launchable {
 public:
  // Calls the library's prepare, with the tensors at these addresses. `share`: see ContenderSite.
  static tl::expected<std::unique_ptr<Contender>, Fault> open(
      Gpu&, const ContenderLibrary&, const std::string& program, const ContenderSettings&, const Task&,
      const Workload&, std::span<const Address> tensors, std::function<void(bool others)> share);
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
