// When a call is tried again. Pure functions.
#pragma once

#include "operators/llm/chat.hpp"
#include "operators/llm/model_config.hpp"
#include "population/random.hpp"

namespace cultivar {

// The longest that a server is obeyed that asks to be left alone (Retry-After).
inline constexpr double kLongestAskedWaitS = 3600.0;

// Before attempt `failures` + 1: first_wait * 2^(failures - 1), at most longest_wait, of which the upper half
// is drawn, so that calls that failed together do not come back together. Never less than the server asked
// for, up to kLongestAskedWaitS.
double wait_before_retry(const RetryRule&, int failures, const ChatError&, RandomStream&);

// What a failure means for the call and for its model.
enum class Consequence {
  retry,       // this attempt is burnt, the next may succeed
  hold,        // 402, 429: nothing is burnt; the model is left alone for a while
  next_model,  // this model cannot do it, another may: auth, too_large, bad_request, refused
  give_up      // cancelled, over_budget
};
Consequence consequence_of(ChatError::Kind);

// How long a model is left alone. `holds`: how often in a row it was.
double hold_time(const RetryRule&, int holds, const ChatError&, RandomStream&);

}  // namespace cultivar
