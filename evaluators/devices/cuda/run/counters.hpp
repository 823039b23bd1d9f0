// SPDX-License-Identifier: Apache-2.0
// Hardware counters of kernels, through CUPTI's Profiler Host and Range Profiler APIs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/run/cupti.hpp"
#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/devices/instruments.hpp"

namespace cultivar::cuda {

// Which metrics can be counted together on a chip, and how. Needs no GPU.
class CounterPlan {
 public:
  // `availability`: the counter availability image of the device, from CUPTI; empty: all counters of the
  // chip.
  static Expected<CounterPlan> make(const Cupti&, const std::string& chip,
                                    std::vector<std::uint8_t> availability = {});
  static Expected<std::vector<std::string>> chips(const Cupti&);
  CounterPlan(CounterPlan&&) noexcept;
  CounterPlan& operator=(CounterPlan&&) noexcept;
  ~CounterPlan();

  bool has(const std::string& metric) const;
  Expected<void> choose(const std::vector<std::string>& metrics);  // once
  std::size_t passes() const { return passes_; }
  const std::vector<std::uint8_t>& image() const { return image_; }
  // The values of the chosen metrics in one range of the data that a range profiler has decoded.
  Expected<std::vector<double>> values(const std::vector<std::uint8_t>& data, std::size_t range) const;
  const std::vector<std::string>& metrics() const { return metrics_; }

 private:
  CounterPlan() = default;
  const Cupti* cupti_ = nullptr;
  cupti::HostObject host_ = nullptr;
  std::vector<std::uint8_t> availability_, image_;
  std::vector<std::string> metrics_;
  std::size_t passes_ = 0;
};

// Counts every kernel launched between before() and after().
class RangeCounting : public LaunchWatch {
 public:
  static Expected<std::unique_ptr<RangeCounting>> begin(const Cupti&, Gpu&, const std::vector<std::string>&,
                                                        std::size_t kernels, Instruments::Replay);
  ~RangeCounting() override;
  void before() override;
  void after() override;
  Expected<bool> all_passes_done() const;
  Expected<std::vector<std::vector<double>>> end();
  std::size_t passes() const { return plan_.passes(); }

 private:
  RangeCounting(const Cupti& cupti, CounterPlan plan) : cupti_(cupti), plan_(std::move(plan)) {}
  void note(Expected<void>);

  const Cupti& cupti_;
  CounterPlan plan_;
  cupti::RangeObject object_ = nullptr;
  std::vector<std::uint8_t> data_;
  std::size_t kernels_ = 0;
  bool done_ = false;
  Expected<void> trouble_;
};

// The chip's name and the counters that this process may read.
Expected<CounterPlan> plan_for(const Cupti&, Gpu&);

}  // namespace cultivar::cuda
