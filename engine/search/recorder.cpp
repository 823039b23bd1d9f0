// SPDX-License-Identifier: Apache-2.0
#include "engine/search/recorder.hpp"

#include <algorithm>
#include <stdexcept>

#include "engine/store/checkpoint.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

Recorder::Recorder(RecordWriter& writer, const SearchCallbacks& callbacks)
    : writer_(writer), callbacks_(callbacks), before_(summary_of(writer.record()).elapsed_s) {}

double Recorder::session() const {
  return seconds_since(began_);
}

void Recorder::step(const std::function<void(Step&)>& write) {
  untold_.clear();
  if (auto written = writer_.step(elapsed(), write); !written)
    throw std::runtime_error(written.error().message);
  for (const Event& event : untold_)
    if (callbacks_.event) callbacks_.event(event);
  untold_.clear();
}

void Recorder::tell(Step& step, const std::string& kind, IndividualId id, std::string text) {
  step.event(kind, id, text);
  untold_.push_back({elapsed(), kind, std::move(text), id});
}

void Recorder::trouble(IndividualId id, const std::string& text) {
  step([&](Step& step) { tell(step, "trouble", id, text); });
}

void Recorder::show(const std::string& kind, IndividualId id, const std::string& text) const {
  if (callbacks_.event) callbacks_.event({elapsed(), kind, text, id});
}

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
