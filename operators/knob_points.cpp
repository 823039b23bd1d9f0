// SPDX-License-Identifier: Apache-2.0
#include "operators/knob_points.hpp"

#include <algorithm>

namespace cultivar {

namespace {

constexpr int kNowhere = -1;

std::optional<Point> complete(Point point) {
  if (std::ranges::find(point, kNowhere) != point.end()) return std::nullopt;
  return point;
}

}  // namespace

KnobPoints::KnobPoints(std::vector<Tunable> tunables) : tunables_(std::move(tunables)) {}

std::vector<Knob> KnobPoints::knobs() const {
  std::vector<Knob> knobs;
  for (const Tunable& tunable : tunables_) {
    Knob knob{tunable.name, {}, !tunable.categorical()};
    for (std::size_t i = 0; i < tunable.values.size(); ++i)
      knob.values.push_back(tunable.categorical()
                                ? static_cast<double>(i)
                                : static_cast<double>(std::get<std::int64_t>(tunable.values[i])));
    knobs.push_back(std::move(knob));
  }
  return knobs;
}

KnobPoints::Place KnobPoints::place_of(const std::pair<std::string, TunableValue>& setting) const {
  const auto tunable = std::ranges::find(tunables_, setting.first, &Tunable::name);
  Place place{static_cast<std::size_t>(tunable - tunables_.begin()), kNowhere};
  if (tunable == tunables_.end()) return place;
  const auto value = std::ranges::find(tunable->values, setting.second);
  if (value != tunable->values.end()) place.value = static_cast<int>(value - tunable->values.begin());
  return place;
}

std::optional<Point> KnobPoints::of(IndividualId id, const Archive& archive) {
  Point point(tunables_.size(), kNowhere);
  for (const std::uint32_t number : archive.settings(id)) {
    if (places_.size() <= number) places_.resize(number + 1);
    if (!places_[number]) places_[number] = place_of(archive.setting(number));
    if (places_[number]->knob < point.size()) point[places_[number]->knob] = places_[number]->value;
  }
  return complete(std::move(point));
}

std::optional<Point> KnobPoints::of(const Configuration& configuration) const {
  Point point(tunables_.size(), kNowhere);
  for (const auto& setting : configuration)
    if (const Place place = place_of(setting); place.knob < point.size()) point[place.knob] = place.value;
  return complete(std::move(point));
}

std::optional<Point> KnobPoints::twin_of(IndividualId id, const Archive& archive) {
  const IndividualId twin = archive.duplicate_of(id);
  if (twin == 0 || archive.source_id(twin) != archive.source_id(id)) return std::nullopt;
  return of(twin, archive);
}

Configuration KnobPoints::at(std::span<const int> point) const {
  Configuration configuration;
  for (std::size_t i = 0; i < tunables_.size(); ++i)
    configuration.emplace(tunables_[i].name, tunables_[i].values[static_cast<std::size_t>(point[i])]);
  return configuration;
}

}  // namespace cultivar
