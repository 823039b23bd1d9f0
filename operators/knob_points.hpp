// SPDX-License-Identifier: Apache-2.0
// The settings of one source's tunables as points of a tuner's space.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluators/variant/manifest.hpp"
#include "operators/tune/space.hpp"
#include "population/archive.hpp"

namespace cultivar {

// Keeps a copy of the tunables. Not thread-safe.
class KnobPoints {
 public:
  explicit KnobPoints(std::vector<Tunable>);

  std::vector<Knob> knobs() const;  // in the order of the tunables
  // nullopt: a value is not on the grid (a hand-written variant may have one that its manifest does not
  // allow).
  std::optional<Point> of(IndividualId, const Archive&);
  std::optional<Point> of(const Configuration&) const;
  // The point of the individual whose kernel this one gave again; nullopt if there is none with this source.
  std::optional<Point> twin_of(IndividualId, const Archive&);
  Configuration at(std::span<const int> point) const;

 private:
  // A setting of the archive on the grid.
  struct Place {
    std::size_t knob = 0;  // one past the last: the source has no such tunable
    int value = 0;         // kNowhere: not one of its values
  };
  Place place_of(const std::pair<std::string, TunableValue>& setting) const;

  std::vector<Tunable> tunables_;
  std::vector<std::optional<Place>> places_;  // by number of the setting, as individuals need them
};

}  // namespace cultivar
