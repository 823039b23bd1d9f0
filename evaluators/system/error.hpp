// SPDX-License-Identifier: Apache-2.0
// The three kinds of errors: a bad candidate is a value (Evaluation); a failure of files, processes or
// services is an Expected; a bug or bad user input is an exception that main catches once.
#pragma once

#include <stdexcept>
#include <string>
#include <tl/expected.hpp>

namespace cultivar {

// The only field of an Error on which a decision may depend. The other two are for people.
enum class ErrorKind {
  failed,       // any other failure
  missing,      // a required program, library, device or service is missing
  unsupported,  // a contender does not support this workload
  denied,       // the user lacks permission on this machine
  interrupted   // the caller stopped the operation
};

struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string doing;    // the operation: "open run", "load NVRTC"; empty if the message contains it
  std::string message;  // what is wrong and the remedy

  std::string text() const { return doing.empty() ? message : doing + ": " + message; }
};

template <class T>
using Expected = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(ErrorKind kind, std::string doing, std::string message) {
  return tl::make_unexpected(Error{kind, std::move(doing), std::move(message)});
}
inline tl::unexpected<Error> failure(std::string doing, std::string message) {
  return failure(ErrorKind::failed, std::move(doing), std::move(message));
}

// An error in what the user wrote. The text is complete: "file:line: what is wrong (remedy)".
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user ended the work; main exits with code 130.
class InterruptedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A device, compiler or service that the command needs is missing; main exits with code 3.
class MissingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cultivar
