// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/counters.hpp"

#include <fmt/format.h>

#include <utility>

namespace cultivar::cuda {
namespace {

using cupti::params;

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

}  // namespace

Expected<CounterPlan> CounterPlan::make(const Cupti& cupti, const std::string& chip,
                                        std::vector<std::uint8_t> availability) {
  CounterPlan plan;
  plan.cupti_ = &cupti;
  plan.availability_ = std::move(availability);
  auto p = params<cupti::HostInitializeParams>();
  p.chip = chip.c_str();
  p.availability = plan.availability_.empty() ? nullptr : plan.availability_.data();
  if (auto made = cupti.check(cupti.ProfilerHostInitialize(&p), "ProfilerHostInitialize"); !made)
    return tl::make_unexpected(
        Error{made.error().kind, made.error().doing, fmt::format("chip {}: {}", chip, made.error().message)});
  plan.host_ = p.host;
  return plan;
}

Expected<std::vector<std::string>> CounterPlan::chips(const Cupti& cupti) {
  auto p = params<cupti::SupportedChipsParams>();
  if (auto told = cupti.check(cupti.ProfilerHostGetSupportedChips(&p), "ProfilerHostGetSupportedChips");
      !told)
    return tl::make_unexpected(told.error());
  return std::vector<std::string>(p.chips, p.chips + p.count);
}

CounterPlan::CounterPlan(CounterPlan&& other) noexcept
    : cupti_(other.cupti_),
      host_(std::exchange(other.host_, nullptr)),
      availability_(std::move(other.availability_)),
      image_(std::move(other.image_)),
      metrics_(std::move(other.metrics_)),
      passes_(other.passes_) {}
CounterPlan& CounterPlan::operator=(CounterPlan&& other) noexcept {
  std::swap(cupti_, other.cupti_);
  std::swap(host_, other.host_);
  availability_.swap(other.availability_);
  image_.swap(other.image_);
  metrics_.swap(other.metrics_);
  std::swap(passes_, other.passes_);
  return *this;
}
CounterPlan::~CounterPlan() {
  if (host_ == nullptr) return;
  auto p = params<cupti::HostDeinitializeParams>();
  p.host = host_;
  cupti_->ProfilerHostDeinitialize(&p);
}

bool CounterPlan::has(const std::string& metric) const {
  auto p = params<cupti::MetricPropertiesParams>();
  p.host = host_;
  p.metric = metric.c_str();
  return cupti_->ProfilerHostGetMetricProperties(&p) == cupti::success;
}

Expected<void> CounterPlan::choose(const std::vector<std::string>& metrics) {
  metrics_ = metrics;
  auto names = pointers(metrics_);
  auto add = params<cupti::AddMetricsParams>();
  add.host = host_;
  add.metrics = names.data();
  add.count = names.size();
  if (auto ok = cupti_->check(cupti_->ProfilerHostConfigAddMetrics(&add), "ProfilerHostConfigAddMetrics");
      !ok)
    return ok;
  auto size = params<cupti::ConfigSizeParams>();
  size.host = host_;
  if (auto ok =
          cupti_->check(cupti_->ProfilerHostGetConfigImageSize(&size), "ProfilerHostGetConfigImageSize");
      !ok)
    return ok;
  image_.assign(size.image_bytes, 0);
  auto image = params<cupti::ConfigImageParams>();
  image.host = host_;
  image.image_bytes = image_.size();
  image.image = image_.data();
  if (auto ok = cupti_->check(cupti_->ProfilerHostGetConfigImage(&image), "ProfilerHostGetConfigImage"); !ok)
    return ok;
  auto count = params<cupti::PassesParams>();
  count.image_bytes = image_.size();
  count.image = image_.data();
  if (auto ok = cupti_->check(cupti_->ProfilerHostGetNumOfPasses(&count), "ProfilerHostGetNumOfPasses"); !ok)
    return ok;
  passes_ = count.passes;
  return {};
}

Expected<std::vector<double>> CounterPlan::values(const std::vector<std::uint8_t>& data,
                                                  std::size_t range) const {
  std::vector<double> values(metrics_.size());
  auto names = pointers(metrics_);
  auto p = params<cupti::EvaluateParams>();
  p.host = host_;
  p.data = data.data();
  p.data_bytes = data.size();
  p.range = range;
  p.metrics = names.data();
  p.count = names.size();
  p.values = values.data();
  if (auto ok = cupti_->check(cupti_->ProfilerHostEvaluateToGpuValues(&p), "ProfilerHostEvaluateToGpuValues");
      !ok)
    return tl::make_unexpected(ok.error());
  return values;
}

Expected<CounterPlan> plan_for(const Cupti& cupti, Gpu& gpu) {
  auto start = params<cupti::InitializeParams>();
  if (auto ok = cupti.check(cupti.ProfilerInitialize(&start), "ProfilerInitialize"); !ok)
    return tl::make_unexpected(ok.error());
  auto name = params<cupti::ChipNameParams>();
  name.device = static_cast<std::size_t>(gpu.index());
  if (auto ok = cupti.check(cupti.DeviceGetChipName(&name), "DeviceGetChipName"); !ok)
    return tl::make_unexpected(ok.error());
  std::vector<std::uint8_t> image;
  auto available = params<cupti::AvailabilityParams>();
  available.context = gpu.context();
  for (int pass = 0; pass < 2; ++pass) {  // the first pass gets the length, the second the contents
    if (auto ok =
            cupti.check(cupti.ProfilerGetCounterAvailability(&available), "ProfilerGetCounterAvailability");
        !ok)
      return tl::make_unexpected(ok.error());
    if (pass == 1) break;
    image.assign(available.image_bytes, 0);
    available.image = image.data();
  }
  return CounterPlan::make(cupti, name.chip, std::move(image));
}

Expected<std::unique_ptr<RangeCounting>> RangeCounting::begin(const Cupti& cupti, Gpu& gpu,
                                                              const std::vector<std::string>& metrics,
                                                              std::size_t kernels,
                                                              Instruments::Replay replay) {
  auto plan = plan_for(cupti, gpu);
  if (!plan) return tl::make_unexpected(plan.error());
  if (auto chosen = plan->choose(metrics); !chosen) return tl::make_unexpected(chosen.error());
  std::unique_ptr<RangeCounting> self(new RangeCounting(cupti, std::move(*plan)));
  self->kernels_ = kernels;
  auto enable = params<cupti::RangeEnableParams>();
  enable.context = gpu.context();
  if (auto ok = cupti.check(cupti.RangeProfilerEnable(&enable), "RangeProfilerEnable"); !ok)
    return tl::make_unexpected(ok.error());
  self->object_ = enable.object;

  auto names = pointers(self->plan_.metrics());
  auto size = params<cupti::RangeDataSizeParams>();
  size.object = self->object_;
  size.metrics = names.data();
  size.count = names.size();
  size.most_ranges = kernels;
  size.most_nodes = static_cast<std::uint32_t>(kernels);
  if (auto ok = cupti.check(cupti.RangeProfilerGetCounterDataSize(&size), "RangeProfilerGetCounterDataSize");
      !ok)
    return tl::make_unexpected(ok.error());
  self->data_.assign(size.data_bytes, 0);
  auto fresh = params<cupti::RangeDataInitializeParams>();
  fresh.object = self->object_;
  fresh.data_bytes = self->data_.size();
  fresh.data = self->data_.data();
  if (auto ok = cupti.check(cupti.RangeProfilerCounterDataImageInitialize(&fresh),
                            "RangeProfilerCounterDataImageInitialize");
      !ok)
    return tl::make_unexpected(ok.error());

  auto config = params<cupti::RangeConfigParams>();
  config.object = self->object_;
  config.config_bytes = self->plan_.image().size();
  config.config = self->plan_.image().data();
  config.data_bytes = self->data_.size();
  config.data = self->data_.data();
  config.range = cupti::auto_range;
  config.replay = replay == Instruments::Replay::by_kernel ? cupti::kernel_replay : cupti::user_replay;
  config.ranges_per_pass = kernels;
  config.nesting_levels = config.least_nesting = config.target_nesting = 1;
  if (auto ok = cupti.check(cupti.RangeProfilerSetConfig(&config), "RangeProfilerSetConfig"); !ok)
    return tl::make_unexpected(ok.error());
  return self;
}

RangeCounting::~RangeCounting() {
  if (object_ == nullptr) return;
  auto p = params<cupti::RangeObjectParams>();
  p.object = object_;
  cupti_.RangeProfilerDisable(&p);
}

void RangeCounting::note(Expected<void> happened) {
  if (trouble_ && !happened) trouble_ = std::move(happened);
}

void RangeCounting::before() {
  auto p = params<cupti::RangeObjectParams>();
  p.object = object_;
  note(cupti_.check(cupti_.RangeProfilerStart(&p), "RangeProfilerStart"));
}

void RangeCounting::after() {
  auto p = params<cupti::RangeStopParams>();
  p.object = object_;
  note(cupti_.check(cupti_.RangeProfilerStop(&p), "RangeProfilerStop"));
  done_ = p.all_submitted != 0;
}

Expected<bool> RangeCounting::all_passes_done() const {
  if (!trouble_) return tl::make_unexpected(trouble_.error());
  return done_;
}

Expected<std::vector<std::vector<double>>> RangeCounting::end() {
  if (!trouble_) return tl::make_unexpected(trouble_.error());
  auto decode = params<cupti::RangeDecodeParams>();
  decode.object = object_;
  if (auto ok = cupti_.check(cupti_.RangeProfilerDecodeData(&decode), "RangeProfilerDecodeData"); !ok)
    return tl::make_unexpected(ok.error());
  auto info = params<cupti::RangeDataInfoParams>();
  info.data = data_.data();
  info.data_bytes = data_.size();
  if (auto ok =
          cupti_.check(cupti_.RangeProfilerGetCounterDataInfo(&info), "RangeProfilerGetCounterDataInfo");
      !ok)
    return tl::make_unexpected(ok.error());
  if (info.ranges != kernels_ || decode.dropped != 0)
    return failure("RangeProfilerGetCounterDataInfo",
                   fmt::format("CUPTI counted {} kernels and dropped {}, but the plan launches {}",
                               info.ranges, decode.dropped, kernels_));
  std::vector<std::vector<double>> all;
  for (std::size_t range = 0; range < info.ranges; ++range) {
    auto values = plan_.values(data_, range);
    if (!values) return tl::make_unexpected(values.error());
    all.push_back(std::move(*values));
  }
  return all;
}

}  // namespace cultivar::cuda
