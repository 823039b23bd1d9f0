// The three lanes for trouble: a bad candidate is a value (Evaluation); trouble with files, processes or
// services is an Expected; a bug or bad input by the user is an exception that main catches once.
#pragma once

#include <stdexcept>
#include <string>
#include <tl/expected.hpp>

namespace cultivar {

struct Error {
  std::string stage;    // what was being done: "compile", "open run.db", ...
  std::string message;  // what went wrong and what to do about it
};

template <class T>
using Expected = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(std::string stage, std::string message) {
  return tl::make_unexpected(Error{std::move(stage), std::move(message)});
}

// What a user wrote is wrong. The text is complete: "file:line: what is wrong (remedy)".
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A device, compiler or service that the command needs is missing; main exits with 3.
class MissingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cultivar
