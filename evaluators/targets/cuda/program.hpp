// A compiled variant loaded on a device, and its plan as launches: arguments packed, tensor maps encoded,
// attributes set. Knows nothing of judging.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "evaluators/targets/cuda/gpu.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar::cuda {

// What a session launches. Not thread-safe; the Gpu outlives it.
class Launchable {
 public:
  virtual ~Launchable() = default;
  // Where the plan's buffers are from now on.
  virtual std::optional<Fault> place(std::span<const Address> buffers) = 0;
  // Queues all of it on the Gpu's stream.
  virtual std::optional<Fault> launch(double deadline_s) = 0;
};

class Program : public Launchable {
 public:
  static tl::expected<std::unique_ptr<Program>, Fault> load(Gpu&, const std::filesystem::path& cubin,
                                                            const Plan&);
  ~Program() override;
  Program(const Program&) = delete;

  // Every pointer and every tensor map follows.
  std::optional<Fault> place(std::span<const Address> buffers) override;
  // Zeroes what must be zero, then the kernels in order; waits for nothing.
  std::optional<Fault> launch(double deadline_s) override;

 private:
  struct Kernel {
    Function function = nullptr;
    LaunchConfig config;
    std::vector<LaunchAttribute> attributes;
    std::vector<std::vector<std::byte>> storage;  // one per argument, but for tensor maps
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
};

}  // namespace cultivar::cuda
