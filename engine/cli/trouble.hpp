// SPDX-License-Identifier: Apache-2.0
// Converts the error of an Expected to the exception that ends a command with the right exit code.
#pragma once

#include <utility>

#include "evaluators/system/error.hpp"

namespace cultivar {

// Kind missing: something that the command needs is not installed (exit 3); kind interrupted: by the user
// (exit 130); other kinds: the work failed (exit 1).
[[noreturn]] inline void raise(const Error& error) {
  if (error.kind == ErrorKind::interrupted) throw InterruptedError(error.text());
  if (error.kind == ErrorKind::missing) throw MissingError(error.message);
  throw std::runtime_error(error.text());
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
