// What a run's record tells of its course: who was judged when, which kernels were the best, and what each
// operator gave.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/store/record.hpp"

namespace cultivar {

struct JudgedKernel {
  IndividualId id = 0;
  std::string op;
  double elapsed_s = 0.0;  // of search time
  double fitness = 0.0;    // at the pace of the search's beginning (Breeding::paced); 0: rejected
  bool refused = false;    // measured, but wrong at its confirmation
};

struct BestStep {
  IndividualId id = 0;
  std::int64_t evaluations = 0;  // how many kernels had been judged by then
  double elapsed_s = 0.0, fitness = 0.0;
};

struct Yield {
  std::int64_t proposed = 0, measured = 0, rejected = 0, challengers = 0, promoted = 0;
  double best = 0.0, device_s = 0.0;
  std::int64_t calls = 0, tokens = 0;
  double usd = 0.0;
};

struct Story {
  Summary summary;
  std::vector<JudgedKernel> judged;                             // in order
  std::vector<BestStep> steps;                                  // in order
  std::map<std::pair<std::string, std::string>, Yield> yields;  // by operator and model
  using Reasons =
      std::vector<std::pair<std::string, std::int64_t>>;  // "stage: reason", the most frequent first
  Reasons rejections;
  Reasons unconfirmed;                       // of those that won their duel
  std::map<std::string, double> contenders;  // fitness that each would have had beside the best
  double device_s = 0.0;                     // checks and measurements, of all workers together
  bool paced = false;                        // fitness was adjusted to another pace
  std::int64_t sessions = 0;                 // times that the search began or went on
};

// Reads all of the record once.
Story tell(const Record&);

}  // namespace cultivar
