// What went wrong, for a test's message: Boost evaluates messages even of checks that hold.
#pragma once

#include <string>

#include "evaluators/error.hpp"
#include "evaluators/evaluation.hpp"

namespace cultivar::testing {

template <class T>
std::string words(const tl::expected<T, Error>& e) {
  return e ? "nothing" : e.error().stage + ": " + e.error().message;
}
template <class T>
std::string words(const tl::expected<T, Evaluation>& e) {
  return e ? "nothing" : e.error().reason + "\n" + e.error().diagnostics;
}

}  // namespace cultivar::testing
