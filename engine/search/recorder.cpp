#include "engine/search/recorder.hpp"

#include <stdexcept>

namespace cultivar {

Recorder::Recorder(Journal& journal, const Faces& faces)
    : journal_(journal), faces_(faces), before_(journal.record().summary().elapsed_s) {}

double Recorder::session() const {
  return seconds_since(began_);
}

void Recorder::step(const std::function<void(Step&)>& write) {
  untold_.clear();
  if (auto written = journal_.step(elapsed(), write); !written)
    throw std::runtime_error(written.error().message);
  for (const Event& event : untold_)
    if (faces_.event) faces_.event(event);
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
  if (faces_.event) faces_.event({elapsed(), kind, text, id});
}

}  // namespace cultivar
