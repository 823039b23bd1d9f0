// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/instruments.hpp"

#include "evaluators/devices/cuda/run/counters.hpp"
#include "evaluators/devices/cuda/run/pc_sampling.hpp"

namespace cultivar::cuda {
namespace {

class CudaInstruments : public Instruments {
 public:
  explicit CudaInstruments(Gpu& gpu) : gpu_(gpu) { gpu_.allocate_plainly(); }
  ~CudaInstruments() override { gpu_.set_watch(nullptr); }

  Expected<void> begin_counting(const std::vector<std::string>& metrics, std::size_t kernels,
                                Replay replay) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    auto counting = RangeCounting::begin(**cupti, gpu_, metrics, kernels, replay);
    if (!counting) return tl::make_unexpected(counting.error());
    counting_ = std::move(*counting);
    gpu_.set_watch(counting_.get());
    return {};
  }
  Expected<bool> counted() const override {
    if (!counting_) return failure("count", "counting has not started");
    return counting_->all_passes_done();
  }
  Expected<std::vector<std::vector<double>>> end_counting() override {
    if (!counting_) return failure("count", "counting has not started");
    gpu_.set_watch(nullptr);
    auto values = counting_->end();
    counting_.reset();
    return values;
  }
  std::size_t passes() const override { return counting_ ? counting_->passes() : 0; }

  Expected<std::vector<std::string>> available(const std::vector<std::string>& metrics) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    const auto plan = plan_for(**cupti, gpu_);
    if (!plan) return tl::make_unexpected(plan.error());
    std::vector<std::string> there;
    for (const std::string& metric : metrics)
      if (plan->has(metric)) there.push_back(metric);
    return there;
  }

  Expected<void> begin_sampling(int period) override {
    const auto cupti = load_cupti();
    if (!cupti) return tl::make_unexpected(cupti.error());
    auto sampling = PcSampling::begin(**cupti, gpu_, period);
    if (!sampling) return tl::make_unexpected(sampling.error());
    sampling_ = std::move(*sampling);
    gpu_.set_watch(sampling_.get());
    return {};
  }
  Expected<PcSamples> end_sampling() override {
    if (!sampling_) return failure("sample", "sampling has not started");
    gpu_.set_watch(nullptr);
    auto samples = sampling_->end();
    sampling_.reset();
    return samples;
  }

 private:
  Gpu& gpu_;
  std::unique_ptr<RangeCounting> counting_;
  std::unique_ptr<PcSampling> sampling_;
};

}  // namespace

std::unique_ptr<Instruments> make_instruments(Gpu& gpu) {
  return std::make_unique<CudaInstruments>(gpu);
}

}  // namespace cultivar::cuda
