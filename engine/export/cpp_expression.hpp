// A manifest's expression as C++ source, so that an exported kernel needs no evaluator.
#pragma once

#include <string>
#include <string_view>

#include "evaluators/error.hpp"
#include "evaluators/expression/expression.hpp"

namespace cultivar {

// What a name of the manifest or the task is called in C++: never as something of the launcher's own.
std::string variable(std::string_view name);

// Fully parenthesised C++ over doubles, each its name's variable. Functions keep their names; `^` becomes
// std::pow; what C++ spells differently from muParser is translated. An Error quotes what could not be read.
Expected<std::string> to_cpp(const Expression&);

}  // namespace cultivar
