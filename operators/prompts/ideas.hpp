// SPDX-License-Identifier: Apache-2.0
// The ideas of a run: what was tried, by whom, and what came of it, from seeds, prompts and agents. Computed
// from the record, so that a resumed search knows the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

struct Idea {
  enum class End : std::uint8_t {
    open,        // a question without an answer so far
    individual,  // the archive knows its result
    nothing      // a question that made no individual
  };
  End end = End::individual;
  IndividualId id = 0;                     // of End::individual
  std::int64_t question = 0;               // of the others
  std::string op = {}, model = {};         // model: empty without one
  std::vector<IndividualId> parents = {};  // or the kernels that the question was about
  std::string words = {};                  // the idea, or the question's direction
  std::string reason = {};                 // of End::nothing
  // What an agent made before its question came to nothing, one line each.
  std::vector<std::string> drafts = {};
};

}  // namespace cultivar
