// SPDX-License-Identifier: Apache-2.0
// Whether a kernel's parameters match the arguments that its manifest gives. Only the compiler knows the
// parameters, so the checks are declarations at the end of the source that it compiles; they leave no trace
// in the code.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evaluators/devices/binary.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// C++ text to append to the source. Lines of messages about it begin with "launch:".
std::string argument_checks(const Manifest&);

// True if the compiler's messages speak of the checks.
bool speaks_of_argument_checks(std::string_view log);

// The reason and the explanation if all errors in the compiler's messages are arguments that do not match.
// Nullopt: there are other errors, such as a kernel that the checks cannot name, and the source must be
// compiled without the checks.
std::optional<CompileFailure> mismatched_arguments(const Manifest&, std::string_view log);

}  // namespace cultivar
