// The first evaluation of each individual: which ones are pending or in flight, and the verdicts.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "engine/breeding/breeding.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/search/recorder.hpp"
#include "engine/search/second_tries.hpp"

namespace cultivar {

// Medians in microseconds, by workload.
using Medians = std::map<std::string, double, std::less<>>;

// Not thread-safe. All references outlive it.
class Evaluations {
 public:
  // Individuals that the record has as proposed but not judged are pending.
  Evaluations(const Config&, Recorder&, Breeding&, ParsedSources&, Pipeline&, SecondTries&);

  // A recorded individual to evaluate when there is room: a seed, a submission, an answer, or one that was in
  // flight when an earlier session was killed.
  void add_pending(IndividualId id) { pending_.push_back(id); }
  void add_pending_first(IndividualId id) { pending_.push_front(id); }
  bool has_pending() const { return !pending_.empty(); }
  int out() const { return out_; }
  bool has_room() const { return out_ < config_.evaluation.depth; }

  void start_pending();  // as many as `evaluation.depth` allows
  // Sends it to the compilers; rejects it at once if lint finds an error.
  void start(IndividualId, const ParsedVariant&);
  // A compiled job goes to the device, a measured one is judged. `incumbent`: a candidate that is much slower
  // than these times is not measured completely.
  void returned(const JobPtr&, Evaluate&, const Medians& incumbent);
  void lost() { --out_; }  // returned without a result; a resumed search evaluates it

  std::string why_no_seed() const;  // why none of the seeds is usable
  void show(Progress&) const;

 private:
  void reevaluate(IndividualId);
  std::optional<Evaluation> lint(const Variant&) const;
  void judge(IndividualId, const Evaluation&, const std::string& kernel, IndividualId duplicate_of);

  const Config& config_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;
  SecondTries& second_tries_;

  std::deque<IndividualId> pending_;
  int out_ = 0;  // jobs in flight
  std::int64_t judged_before_, measured_;
  std::map<Stage, std::int64_t> rejected_;
  std::string unit_;
  IndividualId first_seed_ = 0;  // among the measured ones
  double first_seed_fitness_ = 0.0;
};

}  // namespace cultivar
