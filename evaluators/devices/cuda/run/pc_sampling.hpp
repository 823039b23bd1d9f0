// SPDX-License-Identifier: Apache-2.0
// Where warps are and why they stall, through CUPTI's PC Sampling API.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "evaluators/devices/cuda/run/cupti.hpp"
#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/devices/instruments.hpp"

namespace cultivar::cuda {

// The parts of a stall metric's name: "smsp__pcsamp_warps_issue_stalled_wait_not_issued" is the reason
// "wait", exposed.
struct StallName {
  std::string reason;
  bool exposed = false;
};
StallName stall_name(const std::string& cupti_name);

class PcSampling : public LaunchWatch {
 public:
  static Expected<std::unique_ptr<PcSampling>> begin(const Cupti&, Gpu&, int period);
  ~PcSampling() override;
  void before() override;
  void after() override;
  Expected<PcSamples> end();

 private:
  PcSampling(const Cupti& cupti, Gpu& gpu) : cupti_(cupti), gpu_(gpu) {}
  struct Buffer {
    std::vector<cupti::PcData> pcs;
    std::vector<cupti::StallReason> reasons;
    cupti::SamplingData data{};
  };
  void make(Buffer&) const;
  Expected<void> name_reasons();
  Expected<void> configure(int period);
  Expected<void> collect();
  void take(const cupti::SamplingData&);
  Expected<void> call(int (*)(cupti::SamplingParams*), const char* name) const;
  void note(Expected<void>);

  const Cupti& cupti_;
  Gpu& gpu_;
  bool enabled_ = false;
  std::map<std::uint32_t, StallName> reasons_;
  Buffer own_, delivered_;  // own_ is filled by CUPTI at the end, delivered_ on request
  // function, offset, reason -> samples, exposed
  std::map<std::tuple<std::string, std::uint64_t, std::string>, std::pair<std::uint64_t, std::uint64_t>>
      seen_;
  std::uint64_t total_ = 0, dropped_ = 0;
  Expected<void> trouble_;
};

}  // namespace cultivar::cuda
