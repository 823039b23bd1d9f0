// SPDX-License-Identifier: Apache-2.0
// The first evaluation of each individual: the queue of pending ones, those in flight, and their judgement.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "engine/search/host_faults.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/search/recorder.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// Grants a second evaluation to seeds and to confirmations that time out, because on a busy machine correct
// kernels may time out too. Other individuals get none, because the search soon has new ones.
class SecondTries {
 public:
  // The recorder outlives it. Second tries of earlier sessions count.
  explicit SecondTries(Recorder& recorder);

  // True if the evaluation exceeded a deadline for the first time. It is then recorded, and the caller must
  // repeat it.
  bool grant(IndividualId, Examination, const Evaluation&);
  bool granted(IndividualId id, Examination of) const { return granted_.contains({id, of}); }

 private:
  Recorder& recorder_;
  std::set<std::pair<IndividualId, Examination>> granted_;
};

// Medians in microseconds, by workload.
using Medians = std::map<std::string, double, std::less<>>;

// Not thread-safe. All references outlive it.
class Evaluations {
 public:
  // Enqueues every individual that the record has as proposed but not judged.
  Evaluations(const Config&, Recorder&, Breeding&, ParsedSources&, Pipeline&, SecondTries&, HostFaults&);

  // The individual is in the record and its evaluation is pending: a seed, a submission, a model's proposal,
  // or an individual whose evaluation was interrupted. enqueue_first() puts it before all others.
  void enqueue(IndividualId id) { pending_.push_back(id); }
  void enqueue_first(IndividualId id) { pending_.push_front(id); }
  bool has_pending() const { return !pending_.empty(); }
  std::size_t pending() const { return pending_.size(); }
  int in_flight() const { return in_flight_; }
  std::int64_t measured() const { return measured_; }
  // Whether the first evaluation of a kernel that a language model or a user wrote is under way, among the
  // individuals up to this one.
  bool awaits_one_up_to(IndividualId last) const;
  bool has_room() const { return in_flight_ < config_.evaluation.depth; }

  // As many as has_room() allows, and all that a language model or a user wrote.
  void start_pending();
  // Sends it to the compilers, or judges it at once if lint rejects it.
  void start(IndividualId, const ParsedVariant&);
  // Takes a returned job: sends a compiled individual to the device, judges a measured one. The measurement
  // of an individual that is much slower than `incumbent` ends early.
  void returned(const JobPtr&, Evaluate&, const Medians& incumbent);
  // The job returned without a result. The record still has the individual as proposed.
  void lost() { --in_flight_; }

  // Sends a kernel that is known to work to be measured; false if there is none.
  bool start_canary();
  // Takes a returned job: sends a compiled canary to the device, tells HostFaults of a measured one.
  void returned(const JobPtr&, Canary&);

  std::string why_no_seed() const;  // why no seed is usable
  void show(Progress&);

 private:
  void reevaluate(IndividualId);
  bool awaited(IndividualId) const;
  // Whether it is a duplicate of this one. A submission of a rejected kernel asks for it again.
  bool repeats(IndividualId, std::optional<IndividualId> twin) const;
  std::optional<Evaluation> lint(const Variant&) const;
  std::map<std::string, double> descriptors_of(IndividualId, const Evaluation&) const;
  void judge(IndividualId, const Evaluation&, const std::string& kernel, IndividualId duplicate_of);

  const Config& config_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;
  SecondTries& second_tries_;
  HostFaults& faults_;

  std::deque<IndividualId> pending_;
  int in_flight_ = 0;  // jobs
  EvaluationRate rate_;
  std::int64_t measured_;
  std::map<Stage, std::int64_t> rejected_;
  std::string unit_;
  IndividualId first_seed_ = 0;            // the first measured one
  IndividualId shown_ = 0;                 // the best at the last show()
  std::optional<SeedRatio> to_seed_ = {};  // of that
};

// What a measured variant is like, as numbers by name: the axes of map_elites.

// What the compiler reported (Resources, the shares included), and of the plan for one workload:
// - launches: the number of kernels that run;
// - passes: the bytes of all buffers that the kernels get, each time that one gets it, over the bytes of the
//   task's tensors: 1 if one kernel gets each tensor once;
// - workspace_bytes;
// where kernels have blocks, also:
// - block_threads, block_shared_bytes (static and dynamic): the largest of all kernels;
// - occupancy: the share of the warps that a multiprocessor can hold, in percent, the smallest of all
//   kernels. Registers and static shared memory are the largest of the binary's kernels.
// Only the compiler's numbers if there is no plan.
std::map<std::string, double> descriptors_of(const Resources&, const Variant&, const Task&, const Workload&,
                                             const Facts&);
// The names of all that a kernel for this target can have.
std::vector<std::string> descriptor_names(Target);

}  // namespace cultivar
