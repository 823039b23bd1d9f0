// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/instruments.hpp"

#include <span>

#include "evaluators/devices/cuda/code/line_table.hpp"
#include "evaluators/devices/cuda/code/metric_sets.hpp"
#include "evaluators/devices/cuda/run/counters.hpp"
#include "evaluators/devices/cuda/run/pc_sampling.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar::cuda {
namespace {

class CudaInstruments : public Instruments {
 public:
  explicit CudaInstruments(Gpu& gpu) : gpu_(gpu) { gpu_.allocate_plainly(); }
  ~CudaInstruments() override { gpu_.set_watch(nullptr); }

  Expected<void> begin_counting(bool full, std::size_t kernels, Replay replay) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    const auto plan = plan_for(**cupti, gpu_);
    if (!plan) return tl::make_unexpected(plan.error());
    metrics_.clear();
    absent_.clear();
    for (const Counter& counter : counters()) {
      if (!full && !counter.quick) continue;
      if (plan->has(std::string(counter.metric)))
        metrics_.emplace_back(counter.metric);
      else if (counter.everywhere)
        absent_.emplace_back(counter.key);
    }
    auto counting = RangeCounting::begin(**cupti, gpu_, metrics_, kernels, replay);
    if (!counting) return tl::make_unexpected(counting.error());
    counting_ = std::move(*counting);
    gpu_.set_watch(counting_.get());
    return {};
  }
  Expected<bool> counted() const override {
    if (!counting_) return failure("count", "counting has not started");
    return counting_->all_passes_done();
  }
  Expected<std::vector<CounterValues>> end_counting() override {
    if (!counting_) return failure("count", "counting has not started");
    gpu_.set_watch(nullptr);
    const auto values = counting_->end();
    counting_.reset();
    if (!values) return tl::make_unexpected(values.error());
    std::vector<CounterValues> of_kernels;
    for (const std::vector<double>& each : *values) of_kernels.push_back(by_key(metrics_, each));
    return of_kernels;
  }
  std::vector<std::string> absent() const override { return absent_; }
  std::size_t passes() const override { return counting_ ? counting_->passes() : 0; }

  Expected<void> begin_sampling(int period) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    auto sampling = PcSampling::begin(**cupti, gpu_, period);
    if (!sampling) return tl::make_unexpected(sampling.error());
    sampling_ = std::move(*sampling);
    gpu_.set_watch(sampling_.get());
    return {};
  }
  Expected<PcSamples> end_sampling(const std::filesystem::path& binary) override {
    if (!sampling_) return failure("sample", "sampling has not started");
    gpu_.set_watch(nullptr);
    auto samples = sampling_->end();
    sampling_.reset();
    if (!samples) return samples;
    const std::string code = read_file(binary).value_or("");
    if (const auto table = LineTable::read(std::as_bytes(std::span(code))))
      table->add_to(*samples);
    else
      samples->without_lines = table.error().message;
    return samples;
  }

 private:
  Gpu& gpu_;
  std::unique_ptr<RangeCounting> counting_;
  std::unique_ptr<PcSampling> sampling_;
  std::vector<std::string> metrics_, absent_;
};

}  // namespace

std::unique_ptr<Instruments> make_instruments(Gpu& gpu) {
  return std::make_unique<CudaInstruments>(gpu);
}

}  // namespace cultivar::cuda
