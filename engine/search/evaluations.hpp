// Individuals and their first measurement: who is owed one, who is out, and what it came to.
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
  // Whoever the record has proposed and not judged is owed an evaluation.
  Evaluations(const Config&, Recorder&, Breeding&, ParsedSources&, Pipeline&, SecondTries&);

  // Recorded, and to be evaluated when there is room: seeds, submissions, answers, what a kill interrupted.
  void owe(IndividualId id) { owed_.push_back(id); }
  void owe_first(IndividualId id) { owed_.push_front(id); }
  bool owes() const { return !owed_.empty(); }
  std::size_t owed() const { return owed_.size(); }
  int out() const { return out_; }
  bool has_room() const { return out_ < config_.evaluation.depth; }

  void start_owed();  // as many as there is room for
  // To the compilers, or judged at once when lint refuses it.
  void start(IndividualId, const ParsedVariant&);
  // Compiled, and goes on to the device; or measured, and is judged. `incumbent`: one that is much slower is
  // not measured to the end.
  void returned(const JobPtr&, Evaluate&, const Medians& incumbent);
  void lost() { --out_; }  // came back without a result: it stays proposed in the record

  std::string why_no_seed() const;  // is usable
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

  std::deque<IndividualId> owed_;
  int out_ = 0;  // jobs
  std::int64_t judged_before_, measured_;
  std::map<Stage, std::int64_t> rejected_;
  std::string unit_;
  IndividualId first_seed_ = 0;  // of those that were measured
  double first_seed_fitness_ = 0.0;
};

}  // namespace cultivar
