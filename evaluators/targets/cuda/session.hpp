// One cuda variant bound to one workload: guarded buffers on the device, and a judge that trusts nothing they
// hold.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "evaluators/targets/cuda/program.hpp"
#include "evaluators/targets/target.hpp"

namespace cultivar::cuda {

class CudaSession : public Session {
 public:
  // The Gpu outlives the session.
  static tl::expected<std::unique_ptr<CudaSession>, Fault> open(Gpu&, const Binary&, const Plan&);
  // A contender's library: what it launches nobody has declared, so that only its time is compared with
  // CUPTI's.
  static tl::expected<std::unique_ptr<CudaSession>, Fault> open_contender(
      Gpu&, const std::filesystem::path& library, const Task&, const Workload&);

  ~CudaSession() override;

  // The first timed run is preceded by two that do not count: one that makes the driver set up what the code
  // needs, and one whose kernels CUPTI counts and times.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return unwritten_; }

 private:
  enum class Mode { plain, traced, timed };
  CudaSession(Gpu& gpu, Plan plan) : gpu_(gpu), plan_(std::move(plan)) {}
  static tl::expected<std::unique_ptr<CudaSession>, Fault> make(Gpu&, Plan);
  std::optional<Fault> allocate();
  void choose_places(std::uint64_t seed);
  tl::expected<Sample, Fault> once(Mode, const RunInputs&, const RunOptions&);
  // Inputs, poison and guards; sums_ of the inputs.
  std::optional<Fault> prepare(const RunInputs&, const RunOptions&);
  tl::expected<Sample, Fault> execute(Mode, double deadline_s);
  // Guards, inputs and unwritten elements.
  std::optional<Fault> inspect(const RunOptions&);
  std::optional<Fault> broken_guard() const;
  std::optional<Fault> compare_trace(const std::vector<TracedKernel>&, double event_seconds) const;
  std::optional<Fault> fetch(std::span<std::vector<std::byte>> outputs, const RunOptions&);
  std::optional<Fault> bring_findings(const std::string& what);
  void judge_clock(Sample&) const;
  double clock_mhz() const;  // of the last blocked launch; 0: too short to tell

  Gpu& gpu_;
  Plan plan_;
  bool foreign_ = false;             // a contender's library
  DeviceMemory memory_;              // all buffers, each between guards
  std::vector<DeviceMemory> apart_;  // or each by itself, without guards
  std::vector<std::uint64_t> begins_,
      ends_;                        // of each buffer's region, guards included, from memory_'s start
  std::vector<Address> addresses_;  // of the data in this run
  std::vector<Region> guards_;      // two a buffer
  std::uint64_t secret_ = 0;        // guards and checksums
  DeviceMemory index_, gathered_;
  std::vector<std::uint64_t> sums_;  // of the inputs, before the run
  bool proven_ = false;              // the runs before the first timed one are done
  std::unique_ptr<Launchable> program_;
  std::size_t unwritten_ = 0;
  std::optional<Fault> dead_;
};

}  // namespace cultivar::cuda
