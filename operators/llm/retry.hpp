// SPDX-License-Identifier: Apache-2.0
// Decides when a call is retried. Pure functions.
#pragma once

#include "evaluators/system/random.hpp"
#include "operators/llm/chat.hpp"
#include "operators/llm/model_config.hpp"

namespace cultivar {

// Upper limit for a wait that a server requests (Retry-After).
inline constexpr double kLongestAskedWaitS = 3600.0;

// The wait before attempt `failures` + 1: first_wait * 2^(failures - 1), at most longest_wait, with the upper
// half random, so that calls that failed together are not retried together. At least what the server
// requested, up to kLongestAskedWaitS.
double wait_before_retry(const RetryRule&, int failures, const ChatError&, RandomStream&);

// The consequence of a failure for the call and for its model.
enum class Consequence {
  retry,       // uses an attempt; the next may succeed
  hold,        // 402, 429, unwritable: uses no attempt; the model is on hold for a while
  next_model,  // only another model may succeed: auth, too_large, bad_request, refused
  give_up      // cancelled, over_budget
};
Consequence consequence_of(ChatError::Kind);

// How long a model is on hold. `holds`: number of holds in a row.
double hold_time(const RetryRule&, int holds, const ChatError&, RandomStream&);

}  // namespace cultivar
