// SPDX-License-Identifier: Apache-2.0
// One cuda variant on one workload: guarded buffers on the device, and a judge that trusts nothing they hold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "evaluators/devices/cuda/run/device_memory.hpp"
#include "evaluators/devices/cuda/run/program.hpp"
#include "evaluators/devices/device.hpp"

namespace cultivar::cuda {

class CudaSession : public Session {
 public:
  // The Gpu must outlive the session.
  static tl::expected<std::unique_ptr<CudaSession>, Fault> open(Gpu&, const Binary&, const Plan&,
                                                                std::span<const Repetition> repetitions = {});
  // Opens a contender's library. It does not declare its launches, so only its time is compared with CUPTI's.
  static tl::expected<std::unique_ptr<CudaSession>, Fault> open_contender(Gpu&, const ContenderFile&,
                                                                          const ContenderSettings&,
                                                                          const Task&, const Workload&);

  ~CudaSession() override;

  // Two uncounted runs precede the first timed run: one lets the driver set up what the code needs, and in
  // the other CUPTI counts and times the kernels.
  tl::expected<Sample, Fault> run(const RunInputs&, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override;
  std::size_t unwritten_elements() const override { return unwritten_; }

 private:
  enum class Mode { plain, traced, timed };
  CudaSession(Gpu& gpu, Plan plan) : gpu_(gpu), plan_(std::move(plan)) {}
  static tl::expected<std::unique_ptr<CudaSession>, Fault> make(Gpu&, Plan, std::span<const Repetition> = {});
  std::optional<Fault> allocate();
  std::optional<Fault> repeat(std::span<const Repetition>);
  void choose_places(std::uint64_t seed);
  tl::expected<Sample, Fault> once(Mode, const RunInputs&, const RunOptions&);
  // Prepares inputs, poison and guards, and sums_ of the inputs.
  std::optional<Fault> prepare(const RunInputs&, const RunOptions&);
  tl::expected<Sample, Fault> execute(Mode, double deadline_s);
  // Checks guards, inputs and unwritten elements.
  std::optional<Fault> inspect(const RunOptions&);
  std::optional<Fault> broken_guard() const;
  std::optional<Fault> fetch(std::span<std::vector<std::byte>> outputs, const RunOptions&);
  std::optional<Fault> copy_back(Address from, const PlannedBuffer&, std::span<const ElementRange>,
                                 std::vector<std::byte>& output);
  std::optional<Fault> gather(Address from, const PlannedBuffer&, std::span<const ElementRange>,
                              std::size_t bytes, std::vector<std::byte>& output);
  std::optional<Fault> bring_findings(const std::string& what);

  Gpu& gpu_;
  Plan plan_;
  bool foreign_ = false;             // a contender's library
  bool overlaps_ = false;            // the last kernel may end before the one ahead of it
  DeviceMemory memory_;              // all buffers, each between two guards
  std::vector<DeviceMemory> apart_;  // or each buffer separately, without guards
  std::map<std::size_t, RepeatedMemory>
      repeated_;  // or, of some buffers, so; plan_ has the bytes that are stored
  std::vector<std::uint64_t> begins_,
      ends_;  // of each buffer's region, including guards, relative to the start of memory_
  std::vector<Address> addresses_;  // of the data in this run
  std::vector<Region> guards_;      // two per buffer
  std::uint64_t poison_ = 0;        // RunOptions::poison_seed of this run
  std::uint64_t secret_ = 0;        // seed of guards and checksums
  DeviceMemory index_, gathered_;
  std::vector<std::uint64_t> sums_;  // of the inputs, before the run
  bool proven_ = false;              // the uncounted runs before the first timed run are done
  std::unique_ptr<Launchable> program_;
  std::size_t unwritten_ = 0;
  std::optional<Fault> dead_;
};

}  // namespace cultivar::cuda
