// SPDX-License-Identifier: Apache-2.0
#include "engine/search/recorder.hpp"

#include "engine/store/summary.hpp"

#include <stdexcept>

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

}  // namespace cultivar
