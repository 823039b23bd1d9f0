// What the engine asks of the workers and what it gets back. Plain values; their JSON is in protocol.hpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/evaluation.hpp"
#include "evaluators/gate.hpp"
#include "evaluators/profile/profile.hpp"
#include "evaluators/targets/instruments.hpp"
#include "evaluators/targets/target.hpp"

namespace cultivar {

// A variant with a binary for each of its macro assignments; or a contender's library, which needs neither.
struct Compiled {
  Variant variant;
  std::vector<Binary> binaries;
  double compile_seconds = 0.0;  // wall time, all its binaries together
  std::filesystem::path library =
      {};  // cultivar_contender.h; `variant` then has a name, a target and an id alone

  bool is_library() const { return !library.empty(); }

  // The one for these macros; nullptr: not compiled.
  const Binary* binary(const std::vector<std::string>& macros) const;
};

// A contender's library as a side; its id is the hash of the file. Throws InputError when that cannot be
// read.
Compiled library_contender(const std::string& name, const std::filesystem::path& library, TargetKind);

// Which of a variant's macro assignments to compile besides those of the workloads asked for.
enum class Breadth {
  searching,   // what each check stage needs to check something: shapes that share the workloads' binaries
               // come free
  everything,  // every check shape and every holdout workload that it claims: for Stage::confirm and for
               // export
};

struct Sampling {
  int screening_samples = 20;  // without contenders
  int min_samples = 5;         // however slow it is
  double screening_seconds =
      1.5;               // wall time for one workload, checks of the samples included, without contenders
  int max_samples = 60;  // with contenders
  double max_seconds = 20.0;  // of timed work for one workload, with contenders
  int oracle_rows = 24;       // secret rows checked after each timed run
};

struct EvaluateRequest {
  Compiled variant;
  std::vector<Workload> workloads;
  Stage stop_after =
      Stage::measure;  // or confirm: fresh process, new seeds, and these besides (empty: the task's):
  std::vector<Workload> holdout;
  std::vector<std::pair<std::string, Compiled>> contenders;  // timed interleaved with the variant
  Sampling sampling;
  // Every row of every timed shape is compared once before it is timed (see kEveryRowFlops); confirmation
  // does that always. Timed runs are checked on secret rows either way.
  bool every_row = false;
  bool small_shapes = false;  // only smoke and edge: whoever asks has slowed the kernels
  std::uint64_t seed = 0;     // of inputs and rows; 0 = fresh and secret, which every search must use
  // The incumbent's median by workload. When given, a workload on which the variant is more than `give_up`
  // times slower stops at min_samples: its place is known well enough.
  std::map<std::string, double, std::less<>> incumbent_us;
  double give_up = 2.0;
};

struct GateRequest {
  Compiled challenger, incumbent, control;
  std::vector<Workload> workloads;
  GateOptions options;
  std::uint64_t seed = 0;  // of the order of the sides, so that the duel can be told again
  int oracle_rows = 24;
};

struct GateReport {
  Decision decision;
  std::vector<std::string>
      trouble;  // a side that failed during the duel; the decision is then `worse` or `undecided`
  std::vector<double> challenger_seconds, incumbent_seconds;  // medians by workload
  double seconds = 0.0;
  std::uint64_t input_seed = 0;  // of inputs and rows: always fresh
  bool worker_lost = false;
};

// Each part but the first by a process of its own (see instruments.hpp).
enum class ProfilePart { timing, stalls, counters };
struct ProfileRequest {
  Compiled variant;
  Workload workload;
  bool full = false;  // or the quick set
  Sampling sampling;
  std::uint64_t seed = 0;  // of inputs and rows; 0 = fresh and secret
  // Of one part; DeviceService sees to these.
  ProfilePart part = ProfilePart::timing;
  Instruments::Replay replay = Instruments::Replay::by_kernel;
  double median_us = 0.0;  // as the timing found it; 0: not known
};

struct ProfilePartial {
  Profile profile;
  std::optional<Evaluation> rejection;  // the variant failed; the profile means nothing
  bool again = false;                   // it failed in a way that another try may not
};

struct CompilerInfo {
  std::string identity, isolation, weakness;  // as Compiler says them
};

struct DeviceInfo {
  std::string description, isolation, weakness;
  Facts facts;
  Ceilings ceilings;
};

}  // namespace cultivar
