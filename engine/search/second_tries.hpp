// SPDX-License-Identifier: Apache-2.0
// Grants a second evaluation to seeds and to confirmations that time out, because on a busy machine correct
// kernels may time out too. Other individuals get none, because the search soon has new ones.
#pragma once

#include <set>
#include <utility>

#include "engine/search/recorder.hpp"

namespace cultivar {

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

}  // namespace cultivar
