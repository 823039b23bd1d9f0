// Which individuals exceeded a deadline once and are evaluated again. On a busy machine, good kernels can be
// late: seeds and winners of duels get a second try, other candidates do not.
#pragma once

#include <set>
#include <utility>

#include "engine/search/recorder.hpp"

namespace cultivar {

class SecondTries {
 public:
  explicit SecondTries(Recorder& recorder);  // outlives this; earlier sessions count

  // True for the first time past a deadline: recorded, and to be evaluated again.
  bool grant(IndividualId, Examination, const Evaluation&);
  bool granted(IndividualId id, Examination of) const { return granted_.contains({id, of}); }

 private:
  Recorder& recorder_;
  std::set<std::pair<IndividualId, Examination>> granted_;
};

}  // namespace cultivar
