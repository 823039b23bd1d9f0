// SPDX-License-Identifier: Apache-2.0
#include "engine/search/checkpoints.hpp"

#include <algorithm>
#include <chrono>

#include "engine/store/checkpoint.hpp"

namespace cultivar {

Checkpoints::Checkpoints(const CheckpointConfig& config, const RunFolder& folder, Recorder& recorder)
    : config_(config), folder_(folder), recorder_(recorder), last_(recorder.elapsed()) {}

void Checkpoints::take_if_due(int wanted) {
  if (being_made_.valid() && being_made_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    const auto made = being_made_.get();
    took_s_ = recorder_.elapsed() - last_;
    const std::string words = made ? made->filename().string() : made.error().message;
    if (made || words != told_)
      recorder_.step([&](Step& step) { recorder_.tell(step, made ? "checkpoint" : "trouble", 0, words); });
    told_ = made ? "" : words;
  }
  const bool due = wanted != wanted_ || recorder_.elapsed() - last_ >= interval(config_, took_s_);
  if (being_made_.valid() || !due) return;
  wanted_ = wanted;
  last_ = recorder_.elapsed();
  being_made_ = std::async(std::launch::async,
                           [folder = folder_, keep = config_.keep] { return make_checkpoint(folder, keep); });
}

double Checkpoints::interval(const CheckpointConfig& config, double took_s) {
  constexpr double kShare = 0.1;
  return std::max(config.every_s, took_s / kShare);
}

void Checkpoints::take_last() {
  if (being_made_.valid()) being_made_.wait();
  being_made_ = {};
  if (auto made = make_checkpoint(folder_, config_.keep); !made)
    recorder_.show("trouble", 0, made.error().message);
}

}  // namespace cultivar
