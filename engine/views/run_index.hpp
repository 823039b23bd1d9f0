// SPDX-License-Identifier: Apache-2.0
// A run's individuals and judgements in memory, kept up to date with its record: what lists, charts and sums
// are made of. About 150 bytes for an individual.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/store/kernel_lines.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

struct KernelFacts {
  IndividualId id = 0, parent = 0, duplicate_of = 0;  // parent: the first one; 0: none
  std::int64_t source = 0;                            // equal for equal sources
  // RunIndex::word. Of one that failed its confirmation: stage "confirm", and the reason of that.
  std::uint32_t op = 0, model = 0, stage = 0, reason = 0;
  int island = 0;
  IndividualState state = IndividualState::proposed;
  bool expelled = false, challenged = false, promoted = false;  // challenged: had a duel
  double measured = 0.0;                                        // its fitness as measured
  double pace = 1.0;                                            // of the device at that time
  double fitness = 0.0;                                         // as in Standings; 0: not measured
  double usd = 0.0;
  std::int64_t tokens = 0, question = 0;  // question: to a language model, from which it comes; 0: none
  double elapsed_s = -1.0;                // of search time, when it was judged; negative: not yet
  double judged_at = 0.0;                 // the same in seconds since 1970
};

class RunIndex {
 public:
  struct Judgement {  // in order
    IndividualId id = 0;
    double elapsed_s = 0.0, device_s = 0.0;
  };
  struct Promotion {
    IndividualId id = 0;
    std::int64_t evaluations = 0;  // judged by then
    double elapsed_s = 0.0;
    double at = 0.0;  // seconds since 1970
  };

  // Reads what is new since the last call; the first one reads the whole record, about a second for 100,000
  // individuals. Always with the same run.
  void update(const Record&);

  const std::vector<KernelFacts>& kernels() const { return kernels_; }  // by id
  const KernelFacts* find(IndividualId) const;                          // nullptr: there is none
  const std::string& word(std::uint32_t number) const { return words_[number]; }
  std::uint32_t words() const { return static_cast<std::uint32_t>(words_.size()); }
  const std::vector<Judgement>& judged() const { return judged_; }
  const std::vector<Promotion>& promotions() const { return promotions_; }
  IndividualId best() const { return promotions_.empty() ? 0 : promotions_.back().id; }  // 0: none yet
  std::int64_t sessions() const { return sessions_; }  // how often the search was started or resumed
  bool paced() const { return paced_; }                // whether fitness was scaled to another pace
  // Changes with whatever is read.
  std::int64_t version() const { return version_; }
  // The ancestors of an individual by first parents, from the seed to itself.
  std::vector<IndividualId> line_to(IndividualId) const;

 private:
  std::uint32_t number_of(const std::string& word);
  void take(const KernelLine&);
  void take(const DecisionRow&);
  void reread(const Record&, IndividualId);
  void explain(const Record&);
  void rate(const Record&);

  std::vector<KernelFacts> kernels_;
  std::vector<std::string> words_{""};
  std::unordered_map<std::string, std::uint32_t> numbers_{{"", 0}};
  std::vector<Judgement> judged_;
  std::vector<Promotion> promotions_;
  std::set<IndividualId> proposed_,
      changed_;  // changed_: to be read again, or whose fitness is not known yet
  std::int64_t seq_ = 0, sessions_ = 0, duels_ = 0, version_ = 0;
  double pace_ = 1.0;
  bool paced_ = false;
};

}  // namespace cultivar
