// From an Expected to the exceptions that end a command with the right exit code.
#pragma once

#include <utility>

#include "evaluators/error.hpp"

namespace cultivar {

// Stage "missing": something the command needs is not there (exit 3); anything else: the work failed (exit
// 1).
[[noreturn]] inline void raise(const Error& error) {
  if (error.stage == "missing") throw MissingError(error.message);
  throw std::runtime_error(error.stage.empty() ? error.message : error.stage + ": " + error.message);
}

template <class T>
T must(Expected<T> value) {
  if (!value) raise(value.error());
  return std::move(*value);
}

inline void must(Expected<void> value) {
  if (!value) raise(value.error());
}

}  // namespace cultivar
