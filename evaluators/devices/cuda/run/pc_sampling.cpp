// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/pc_sampling.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar::cuda {
namespace {

using cupti::params;

constexpr std::size_t most_pcs = 16384;  // per reply of CUPTI; there may be several replies
constexpr int most_answers = 1000;

}  // namespace

StallName stall_name(const std::string& cupti_name) {
  constexpr std::string_view prefix = "smsp__pcsamp_warps_issue_stalled_", other = "smsp__pcsamp_",
                             suffix = "_not_issued";
  StallName name{cupti_name, false};
  if (name.reason.starts_with(prefix))
    name.reason.erase(0, prefix.size());
  else if (name.reason.starts_with(other))
    name.reason.erase(0, other.size());
  if (name.reason.ends_with(suffix)) {
    name.reason.erase(name.reason.size() - suffix.size());
    name.exposed = true;
  }
  return name;
}

Expected<void> PcSampling::call(int (*function)(cupti::SamplingParams*), const char* name) const {
  auto p = params<cupti::SamplingParams>();
  p.context = gpu_.context();
  return cupti_.check(function(&p), name);
}

Expected<std::unique_ptr<PcSampling>> PcSampling::begin(const Cupti& cupti, Gpu& gpu, int period) {
  std::unique_ptr<PcSampling> self(new PcSampling(cupti, gpu));
  if (auto ok = self->call(cupti.PCSamplingEnable, "PCSamplingEnable"); !ok)
    return tl::make_unexpected(ok.error());
  self->enabled_ = true;
  if (auto ok = self->name_reasons(); !ok) return tl::make_unexpected(ok.error());
  self->make(self->own_);
  self->make(self->delivered_);
  if (auto ok = self->configure(period); !ok) return tl::make_unexpected(ok.error());
  return self;
}

PcSampling::~PcSampling() {
  if (enabled_) (void)call(cupti_.PCSamplingDisable, "PCSamplingDisable");
}

Expected<void> PcSampling::name_reasons() {
  std::size_t count = 0;
  auto how_many = params<cupti::ReasonCountParams>();
  how_many.context = gpu_.context();
  how_many.count = &count;
  if (auto ok = cupti_.check(cupti_.PCSamplingGetNumStallReasons(&how_many), "PCSamplingGetNumStallReasons");
      !ok)
    return ok;
  std::vector<std::uint32_t> indices(count);
  std::vector<std::vector<char>> texts(count, std::vector<char>(cupti::stall_name_bytes, '\0'));
  std::vector<char*> names;
  for (auto& text : texts) names.push_back(text.data());
  auto which = params<cupti::ReasonsParams>();
  which.context = gpu_.context();
  which.count = count;
  which.indices = indices.data();
  which.names = names.data();
  if (auto ok = cupti_.check(cupti_.PCSamplingGetStallReasons(&which), "PCSamplingGetStallReasons"); !ok)
    return ok;
  for (std::size_t i = 0; i < count; ++i) {
    texts[i].back() = '\0';
    reasons_[indices[i]] = stall_name(texts[i].data());
  }
  return {};
}

void PcSampling::make(Buffer& buffer) const {
  const std::size_t each = std::max<std::size_t>(1, reasons_.size());
  buffer.pcs.assign(most_pcs, {});
  buffer.reasons.assign(most_pcs * each, {});
  for (std::size_t i = 0; i < most_pcs; ++i) {
    buffer.pcs[i].size = sizeof(cupti::PcData);
    buffer.pcs[i].reasons = &buffer.reasons[i * each];
  }
  buffer.data.size = sizeof(cupti::SamplingData);
  buffer.data.capacity = most_pcs;
  buffer.data.pcs = buffer.pcs.data();
}

Expected<void> PcSampling::configure(int period) {
  std::vector<cupti::SamplingAttribute> attributes(3);
  attributes[0].which = cupti::start_stop_control;
  attributes[0].number = 1;
  attributes[1].which = cupti::sampling_data_buffer;
  attributes[1].pointer = &own_.data;
  attributes[2].which = cupti::sampling_period;
  attributes[2].number = static_cast<std::uint32_t>(std::clamp(period, 5, 31));
  auto p = params<cupti::SamplingConfigParams>();
  p.context = gpu_.context();
  p.count = attributes.size();
  p.attributes = attributes.data();
  if (auto ok =
          cupti_.check(cupti_.PCSamplingSetConfigurationAttribute(&p), "PCSamplingSetConfigurationAttribute");
      !ok)
    return ok;
  for (const cupti::SamplingAttribute& attribute : attributes)
    if (auto ok = cupti_.check(attribute.status, "PCSamplingSetConfigurationAttribute"); !ok) return ok;
  return {};
}

void PcSampling::note(Expected<void> happened) {
  if (trouble_ && !happened) trouble_ = std::move(happened);
}

void PcSampling::before() {
  note(call(cupti_.PCSamplingStart, "PCSamplingStart"));
}

void PcSampling::after() {
  note(call(cupti_.PCSamplingStop, "PCSamplingStop"));
  note(collect());
}

Expected<void> PcSampling::collect() {
  for (int answer = 0; answer < most_answers; ++answer) {
    auto p = params<cupti::SamplingGetDataParams>();
    p.context = gpu_.context();
    p.data = &delivered_.data;
    const int code = cupti_.PCSamplingGetData(&p);
    if (code == cupti::out_of_memory)
      return failure(
          "PCSamplingGetData",
          "the GPU's sample buffer overflowed (CUPTI_ERROR_OUT_OF_MEMORY); use a longer sampling period");
    if (auto ok = cupti_.check(code, "PCSamplingGetData"); !ok) return ok;
    take(delivered_.data);
    if (delivered_.data.remaining == 0) return {};
  }
  return failure("PCSamplingGetData", "CUPTI keeps delivering samples without end");
}

void PcSampling::take(const cupti::SamplingData& data) {
  total_ += data.total;
  dropped_ += data.dropped;
  for (std::size_t i = 0; i < std::min(data.count, data.capacity); ++i) {
    const cupti::PcData& pc = data.pcs[i];
    for (std::size_t r = 0; r < std::min(pc.reason_count, reasons_.size()); ++r) {
      const auto name = reasons_.find(pc.reasons[r].index);
      if (name == reasons_.end() || pc.reasons[r].samples == 0) continue;
      auto& [samples, exposed] =
          seen_[{pc.function == nullptr ? "" : pc.function, pc.offset, name->second.reason}];
      (name->second.exposed ? exposed : samples) += pc.reasons[r].samples;
    }
  }
}

Expected<PcSamples> PcSampling::end() {
  if (!trouble_) return tl::make_unexpected(trouble_.error());
  enabled_ = false;
  if (auto ok = call(cupti_.PCSamplingDisable, "PCSamplingDisable"); !ok)
    return tl::make_unexpected(ok.error());
  take(own_.data);  // the data that CUPTI delivered at the end
  PcSamples result;
  result.total = total_;
  result.dropped = dropped_;
  for (const auto& [where, counts] : seen_) {
    const auto& [function, offset, reason] = where;
    result.samples.push_back({function, offset, reason, counts.first, counts.second});
  }
  return result;
}

}  // namespace cultivar::cuda
