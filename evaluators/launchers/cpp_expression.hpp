// SPDX-License-Identifier: Apache-2.0
// Translates a manifest's expression to C++ source, so that an exported kernel needs no expression evaluator.
#pragma once

#include <string>
#include <string_view>

#include "evaluators/expression/expression.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

// The C++ name for a name of the manifest or the task; never the same as one of the launcher's own names.
std::string variable(std::string_view name);

// A fully parenthesized C++ expression over doubles, with variables named by variable(). Functions keep their
// names; `^` becomes std::pow; other differences from muParser are translated. An Error quotes the
// unsupported part.
Expected<std::string> to_cpp(const Expression&);

}  // namespace cultivar
