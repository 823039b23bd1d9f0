// SPDX-License-Identifier: Apache-2.0
// Duels against the incumbent and confirmations of their winners. Only this class promotes individuals.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/search/incumbent_pace.hpp"
#include "evaluators/judge/duel.hpp"
#include "evaluators/statistics/sequential_test.hpp"

namespace cultivar {

// Duels that end undecided one after another because the noise is too high for the gate's limit of device
// time, and what to do about it. No decision depends on it.
// A value.
class UndecidedDuels {
 public:
  // A duel ended: with these options, after one or several parts.
  void ended(const Decision&, const GateOptions&);
  // Another gate.max_device_seconds, with the command that sets it, if the last kInARow duels ended undecided
  // by `limit_s` and a longer one would have decided an effect of kEffect; otherwise empty.
  std::string advice(double limit_s, const std::filesystem::path& run_folder) const;

  static constexpr std::size_t kInARow = 5;
  static constexpr double kEffect = kToldEffect;

 private:
  std::vector<double> needed_s_;  // of the newest, at most kInARow
};

// Not thread-safe. All references outlive it.
class Comparisons {
 public:
  // `contenders` and the configuration's libraries are timed in every confirmation.
  Comparisons(const Config&, Evaluator&, Recorder&, Breeding&, ParsedSources&, Pipeline&, SecondTries&,
              HostFaults&, std::vector<VariantPtr> contenders);

  bool in_flight() const { return in_flight_; }
  // `bounded`: a budget permits no further evaluation, so only budget.last_comparisons may follow the last
  // one. A winner is always confirmed, and one kernel if there is no best.
  bool due(bool bounded = false) const {
    const std::int64_t limit = std::max<std::int64_t>(most(), breeding_.incumbent() == 0 ? 1 : 0);
    return breeding_.winner() != 0 || (breeding_.challenger() && !(bounded && ended() >= limit));
  }
  std::int64_t ended() const {
    return judged_ == breeding_.judged() ? ended_ : 0;
  }  // since the last judgement
  std::int64_t most() const { return config_.budget.last_comparisons; }
  void start();  // sends the next comparison that is due, unless one is in flight
  struct Outcome {
    std::optional<Error> trouble = {};  // of the machine, not the candidate: retry
    IndividualId promoted = 0;
  };
  // Takes a returned job: sends a compiled one to the device, decides on the result of a measured one.
  Outcome returned(const JobPtr&, Duel&);
  Outcome returned(const JobPtr&, Confirm&);
  // An individual was measured: ends the duel in flight if it is overtaken (Breeding::overtakes).
  void watch_duel();
  void lost() { in_flight_ = false; }  // the job returned without a result; the comparison is due again

  IncumbentPace& pace() { return pace_; }

 private:
  VariantPtr variant_of(IndividualId) const;
  // The first seed is timed beside it, so that the ratio to it is measured (ratio_to_seed in store/summary).
  void confirm(IndividualId);
  IndividualId first_seed() const;  // 0: none was measured, or an earlier one is not judged yet
  // While this kernel was compiled for the first confirmation, a much faster one was measured.
  bool overtaken_before_first(IndividualId) const;
  void duel(IndividualId);
  void send(IndividualId, Job::Work);
  void measure(const JobPtr&);
  // The options, seed and times of this challenger's undecided duel against the incumbent, if it may go on
  // with the present settings; otherwise the next share of alpha.
  void set_test(IndividualId, GateRequest&) const;
  void decide(IndividualId, const GateRequest&, const GateReport&);
  // Returns the promoted individual; 0 if it was expelled or its confirmation is retried.
  IndividualId confirmed(IndividualId, const Evaluation&);
  // A confirmed variant that buys speed with exactness is rejected.
  Evaluation with_growth_limited(Evaluation) const;
  void count_ended();

  const Config& config_;
  Evaluator& evaluator_;
  Recorder& recorder_;
  Breeding& breeding_;
  ParsedSources& sources_;
  Pipeline& pipeline_;
  SecondTries& second_tries_;
  HostFaults& faults_;

  const std::vector<VariantPtr> contenders_;
  std::vector<Compiled> libraries_;   // timed as contenders
  std::vector<Workload> everything_;  // the search's workloads and the holdout
  std::vector<Workload> holdout_;
  bool in_flight_ = false;  // a job is in the pipeline
  struct DuelInFlight {
    IndividualId challenger = 0, overtaken_by = 0;
    std::shared_ptr<std::atomic<bool>> enough;
  };
  std::optional<DuelInFlight> duel_;  // that a worker has, or is about to get
  std::int64_t judged_, ended_;       // comparisons that ended since so many individuals were judged
  UndecidedDuels undecided_;          // of this session
  std::string advice_;                // of these
  AlphaLedger ledger_;
  IncumbentPace pace_;
};

}  // namespace cultivar
