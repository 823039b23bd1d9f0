// Who was late once and may be evaluated again. A busy machine is late with kernels that are well: what a
// search begins from, and what won, is owed a second try; of those in between another comes soon.
#pragma once

#include <set>
#include <utility>

#include "engine/search/recorder.hpp"

namespace cultivar {

class SecondTries {
 public:
  explicit SecondTries(Recorder& recorder);  // outlives it; earlier sessions count

  // Past a deadline, for the first time: recorded, and to be done again.
  bool grant(IndividualId, Examination, const Evaluation&);
  bool granted(IndividualId id, Examination of) const { return granted_.contains({id, of}); }

 private:
  Recorder& recorder_;
  std::set<std::pair<IndividualId, Examination>> granted_;
};

}  // namespace cultivar
