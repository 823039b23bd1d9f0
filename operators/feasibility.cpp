// SPDX-License-Identifier: Apache-2.0
#include "operators/feasibility.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "evaluators/judge/stages.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kMostKnown = 1 << 20;       // of one question
constexpr std::size_t kMostKnownOfAll = 1 << 24;  // a manifest may ask hundreds

// The given names and all names that their values depend on through `let`.
std::set<std::string> closure(const std::vector<std::string>& start, const Manifest& manifest,
                              const Task& task) {
  std::set<std::string> names(start.begin(), start.end());
  for (bool grown = true; grown;) {
    const std::size_t before = names.size();
    for (const auto* let : {&manifest.let, &task.let})
      for (const auto& [name, value] : *let)
        if (names.contains(name)) names.insert(value.names().begin(), value.names().end());
    grown = names.size() != before;
  }
  return names;
}

}  // namespace

Feasibility::Feasibility(Variant variant, const Task& task, std::vector<Workload> workloads,
                         const Facts& facts)
    : tunables_(variant.manifest.tunables), task_(task), facts_(facts) {
  const Manifest& manifest = variant.manifest;
  if (manifest.constraints.empty()) return;
  std::ranges::copy(every_claimed_shape(task, variant), std::back_inserter(workloads));
  variant.source.clear();
  std::set<std::string> asked;
  for (const Expression& constraint : manifest.constraints) {
    add_question(variant, {constraint}, constraint.names(), workloads);
    asked.merge(closure(constraint.names(), manifest, task));
  }
  for (const auto& [name, value] : manifest.let)
    if (!asked.contains(name)) add_question(variant, {}, {name}, workloads);
}

void Feasibility::add_question(const Variant& variant, const std::vector<Expression>& constraints,
                               const std::vector<std::string>& names,
                               const std::vector<Workload>& workloads) {
  const std::set<std::string> all = closure(names, variant.manifest, task_);
  Question question{variant, {}, {}, {}};
  question.variant.manifest.constraints = constraints;
  std::erase_if(question.variant.manifest.let, [&](const auto& let) { return !all.contains(let.first); });
  // Workloads with equal values of these names are checked only once.
  std::set<std::string> seen;
  for (const Workload& workload : workloads) {
    std::string look;
    for (const auto& [name, value] : task_.bindings(workload))
      if (all.contains(name)) look += name + '=' + std::to_string(value) + ' ';
    if (seen.insert(look).second) question.workloads.push_back(workload);
  }
  std::size_t combinations = 1;
  for (std::size_t t = 0; t < tunables_.size(); ++t)
    if (all.contains(tunables_[t].name)) {
      question.depends.push_back(t);
      combinations = std::min(combinations * tunables_[t].values.size(), kMostKnown + 1);
    }
  if (combinations <= std::min(kMostKnown, kMostKnownOfAll - known_)) {
    question.known.assign(combinations, 0);
    known_ += combinations;
  }
  questions_.push_back(std::move(question));
}

bool Feasibility::holds(Question& question, const Configuration& configuration) const {
  question.variant.configuration = configuration;
  return std::ranges::all_of(question.workloads, [&](const Workload& workload) {
    return check_constraints(question.variant, task_, workload, facts_).has_value();
  });
}

bool Feasibility::operator()(const Configuration& configuration) const {
  return std::ranges::all_of(questions_, [&](Question& question) { return holds(question, configuration); });
}

bool Feasibility::at(std::span<const int> point) const {
  const auto configuration = [&] {
    Configuration all;
    for (std::size_t t = 0; t < tunables_.size(); ++t)
      all.emplace(tunables_[t].name, tunables_[t].values[static_cast<std::size_t>(point[t])]);
    return all;
  };
  return std::ranges::all_of(questions_, [&](Question& question) {
    if (question.known.empty()) return holds(question, configuration());
    std::size_t combination = 0;
    for (const std::size_t t : question.depends)
      combination = combination * tunables_[t].values.size() + static_cast<std::size_t>(point[t]);
    std::int8_t& answer = question.known[combination];
    if (answer == 0) answer = holds(question, configuration()) ? 1 : -1;
    return answer > 0;
  });
}

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
