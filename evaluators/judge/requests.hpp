// SPDX-License-Identifier: Apache-2.0
// Requests from the engine to the workers and their results. Plain values; protocol.hpp defines their JSON.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/devices/binary.hpp"
#include "evaluators/devices/ceilings.hpp"
#include "evaluators/devices/instruments.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"
#include "evaluators/verdict/gate.hpp"

namespace cultivar {

// A variant with a binary for each of its macro assignments, or a contender's library, which needs no binary.
struct Compiled {
  Variant variant;
  std::vector<Binary> binaries;
  double compile_seconds = 0.0;      // wall time of all binaries together
  std::vector<Workload> drawn = {};  // of Breadth::everything: drawn shapes with a binary of their own
  std::filesystem::path library =
      {};                    // see cultivar_contender.h; `variant` then has only a name, a target and an id
  std::string program = {};  // of a library that hosts Python (see ContenderFile)

  // Of Breadth::confirming: a check build for each macro assignment, or why one of them has none.
  std::vector<Binary> check_builds = {};
  std::string no_check_build = {};
  std::vector<Binary> overflow_builds = {};  // the same, of the first macro assignment; empty: none

  bool is_library() const { return !library.empty(); }

  // The binary for these macros; nullptr if not compiled.
  const Binary* binary(const std::vector<std::string>& macros) const;
  const Binary* check_build(const std::vector<std::string>& macros) const;
};

// A contender's library as a side; its id is the hash of its files. Throws InputError if one cannot be read.
Compiled library_contender(const std::string& name, const ContenderFile&, Target);

// Which macro assignments of a variant to compile in addition to those of the requested workloads.
enum class Breadth {
  searching,  // what each check stage needs for at least one check; shapes that share the workloads' binaries
              // cost nothing
  everything,  // every check shape and every holdout workload that the variant claims, for Stage::confirm and
               // export
  confirming,  // the same, with check builds (see Compiler::compile_check_build)
  contender,   // none but those of the shapes on which its errors are measured
  timing,      // none: of kernels that passed the checks before (EvaluateRequest::timed_only)
};

struct Sampling {
  int screening_samples = 20;  // without contenders
  int min_samples = 5;         // even for slow kernels
  double screening_seconds =
      1.5;               // wall time for one workload including checks of the samples, without contenders
  int max_samples = 60;  // with contenders
  double max_seconds = 20.0;  // timed work for one workload, with contenders
  int oracle_rows = 24;       // secret rows checked after each timed run
  bool until_clear = false;   // stop as soon as the first contender differs plainly (see clear_difference)
};

struct EvaluateRequest {
  Compiled variant;
  std::vector<Workload> workloads;
  Stage stop_after = Stage::measure;  // or confirm: fresh process, new seeds, and these workloads in addition
                                      // (empty: the task's):
  std::vector<Workload> holdout;
  std::vector<std::pair<std::string, Compiled>> contenders;  // timed interleaved with the variant
  Sampling sampling;
  // Compare every row of every timed shape once before it is timed (see kEveryRowFlops); confirmation always
  // does. Timed runs are checked on secret rows in any case.
  bool every_row = false;
  bool exactness = false;    // also measure how exact it and the contenders are (see Exactness)
  bool checks_only = false;  // nothing is timed: no measure, and so no fitness
  // Only timed, with the check of every timed output: the variant passed the other checks before.
  bool timed_only = false;
  bool small_shapes = false;  // only smoke and edge, for requests under a tool that slows the kernels
  std::uint64_t seed = 0;     // seed of inputs and rows; 0 = new and secret, which every search must use
  // The search's best kernel. If given, it is timed between the variant's runs, about half as often, so that
  // the variant's speed is known relative to it however fast the machine is just now.
  std::optional<Compiled> incumbent = {};
  // The incumbent's median by workload, unless it is timed here. If known, a workload on which the variant is
  // more than `give_up` times slower stops at min_samples, because its rank is known well enough.
  std::map<std::string, double, std::less<>> incumbent_us;
  double give_up = 2.0;
};

struct GateRequest {
  Compiled challenger, incumbent, control;
  std::vector<Workload> workloads;
  GateOptions options;
  std::uint64_t seed = 0;  // seed of the order of the sides, so that the duel can be replayed
  int oracle_rows = 24;
  DuelTimes earlier = {};     // of the duel that this one continues, with the same seed and alpha
  bool within_limit = false;  // GateOptions::within_limit
  // Set by another thread: the duel is no longer needed and ends, undecided, after the pair that runs. Not
  // part of the JSON.
  std::shared_ptr<const std::atomic<bool>> enough = {};
};

struct GateReport {
  Decision decision;
  DuelTimes times = {};  // of the earlier duel and this one, if it is undecided and may go on
  std::vector<std::string>
      trouble;  // sides that failed during the duel; the decision is then `worse` or `undecided`
  std::vector<double> challenger_seconds, incumbent_seconds;  // medians by workload
  double seconds = 0.0;
  std::uint64_t input_seed = 0;  // seed of inputs and rows; always new
  bool worker_lost = false;
  std::optional<HostFault> host_fault = {};  // the duel ended for this and decides nothing
};

// Each part except the first runs in a separate process (see instruments.hpp).
enum class ProfilePart { timing, stalls, counters };
struct ProfileRequest {
  Compiled variant;
  Workload workload;
  bool full = false;  // the full set of counters instead of the quick one
  Sampling sampling;
  std::uint64_t seed = 0;  // seed of inputs and rows; 0 = new and secret
  // For one part; set by DeviceService.
  ProfilePart part = ProfilePart::timing;
  Instruments::Replay replay = Instruments::Replay::by_kernel;
  double median_us = 0.0;  // from the timing part; 0 if unknown
};

struct ProfilePartial {
  Profile profile;
  std::optional<Evaluation> rejection;  // set if the variant failed; the profile is then meaningless
  bool again = false;                   // true if another attempt may succeed
};

// What a worker is about to do, reported to the engine beforehand.
struct Activity {
  std::optional<Stage> stage = {};  // nullopt: the worker is starting
  std::string contender = {};       // the contender whose library it calls; empty if none
  std::string text = {};            // for people only
};
using Announce = std::function<void(const Activity&)>;

}  // namespace cultivar
