// SPDX-License-Identifier: Apache-2.0
#include "operators/tune.hpp"

#include <algorithm>
#include <optional>

#include "operators/feasibility.hpp"
#include "operators/tune/tuner.hpp"

namespace cultivar {

struct TuneOperator::Study {
  std::string source;
  std::shared_ptr<Feasibility> feasible;  // also used by the tuner's predicate
  std::unique_ptr<Tuner> tuner;           // null if the source has no tunables or no longer parses
  bool taught = false;
  std::optional<KnobPoints> points;  // where there is a tuner
};

TuneOperator::TuneOperator(std::uint64_t run_seed, bool rankings, bool avoids_refusals)
    : run_seed_(run_seed), rankings_(rankings), avoids_refusals_(avoids_refusals) {}
TuneOperator::~TuneOperator() = default;

void TuneOperator::observe(IndividualId id, const Archive& archive) {
  const std::string& source = archive.source_id(id);
  unread_[source].push_back(id);
  if (archive.state(id) != Member::State::measured) return;
  auto [place, first] = fittest_.try_emplace(source, id);
  if (!first && archive.fitness(id) > archive.fitness(place->second)) place->second = id;
}

TuneOperator::Study& TuneOperator::study_of(const std::string& source_id, const OperatorContext& s) {
  auto& study = studies_[source_id];
  if (!study) {
    study = std::make_unique<Study>();
    study->source = s.source_of(source_id);
    const auto variant = make_variant(study->source, s.task);
    if (variant && !variant->manifest.tunables.empty()) {
      study->feasible = std::make_shared<Feasibility>(*variant, s.task, s.workloads, s.facts);
      study->points.emplace(variant->manifest.tunables);
      Space space{study->points->knobs(),
                  [feasible = study->feasible](std::span<const int> point) { return feasible->at(point); }};
      TunerOptions options;
      options.rankings = rankings_;
      options.avoids_refusals = avoids_refusals_;
      study->tuner = std::make_unique<Tuner>(std::move(space), run_seed_ ^ name_hash(source_id), options);
    }
  }
  if (!study->tuner) return *study;
  std::vector<IndividualId> undecided;
  // The surrogate stores all new observations, but is refitted only with the last ones (more of them if it
  // was never fitted, because the source is new or the search was resumed). Each fit takes milliseconds.
  const std::size_t lessons = study->taught ? 4 : 16;
  const auto& unread = unread_[source_id];
  for (std::size_t i = 0; i < unread.size(); ++i) {
    const IndividualId id = unread[i];
    // A duplicate counts as the original: the same kernel has the same speed, and the original may still be
    // in flight.
    const IndividualId twin = s.archive.duplicate_of(id) ? s.archive.duplicate_of(id) : id;
    if (s.archive.state(twin) == Member::State::in_flight) {
      undecided.push_back(id);
      continue;
    }
    const auto point = study->points->of(id, s.archive);
    if (!point) continue;
    const bool measured = s.archive.state(twin) == Member::State::measured;
    study->tuner->observe(*point, measured ? std::optional(1.0 / s.archive.fitness(twin)) : std::nullopt,
                          i + lessons >= unread.size(), study->points->twin_of(id, s.archive));
  }
  study->taught = study->taught || undecided.size() < unread.size();
  unread_[source_id] = std::move(undecided);
  return *study;
}

std::optional<Proposal> TuneOperator::propose_from(IndividualId parent, const OperatorContext& s) {
  const std::string source_id = s.archive.source_id(parent);
  Study& study = study_of(source_id, s);
  if (!study.tuner) return std::nullopt;
  const auto& tunables = study.feasible->tunables();
  std::vector<Point> pending;
  const auto add_pending = [&](IndividualId id) {
    if (const auto point = study.points->of(id, s.archive)) pending.push_back(*point);
  };
  for (const IndividualId id : s.archive.in_flight())
    if (s.archive.source_id(id) == source_id) add_pending(id);
  for (const IndividualId id : unread_[source_id]) add_pending(id);  // duplicates whose original is in flight

  const auto point = study.tuner->propose(pending);
  if (!point) return std::nullopt;
  Proposal proposal{study.source, study.points->at(*point), {}};
  proposal.descent.parents = {parent};
  proposal.descent.op = name();
  proposal.descent.island = s.island;
  proposal.descent.note = to_string(tunables, proposal.configuration);
  return proposal;
}

std::optional<Proposal> TuneOperator::propose(const OperatorContext& s, RandomStream&) {
  std::vector<IndividualId> parents = s.parents;
  std::vector<IndividualId> others;
  for (const auto& [source, id] : fittest_)
    if (s.archive.state(id) == Member::State::measured) others.push_back(id);
  std::ranges::sort(others, [&](IndividualId a, IndividualId b) {
    return s.archive.fitness(a) != s.archive.fitness(b) ? s.archive.fitness(a) > s.archive.fitness(b) : a < b;
  });
  parents.insert(parents.end(), others.begin(), others.end());
  std::vector<std::string> tried;
  for (const IndividualId parent : parents) {
    const std::string& source = s.archive.source_id(parent);
    if (std::ranges::find(tried, source) != tried.end()) continue;
    tried.push_back(source);
    if (auto proposal = propose_from(parent, s)) return proposal;
  }
  return std::nullopt;
}

}  // namespace cultivar
