// SPDX-License-Identifier: Apache-2.0
// The error message for a test's output: Boost evaluates messages even of checks that pass.
#pragma once

#include <string>

#include "evaluators/system/error.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar::testing {

template <class T>
std::string words(const tl::expected<T, Error>& e) {
  return e ? "nothing" : e.error().text();
}
template <class T>
std::string words(const tl::expected<T, Evaluation>& e) {
  return e ? "nothing" : e.error().reason + "\n" + e.error().diagnostics;
}

}  // namespace cultivar::testing
