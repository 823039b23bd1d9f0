// A manifest's expression as C++ source, so that an exported kernel needs no evaluator.
#pragma once

#include <string>

#include "evaluators/error.hpp"
#include "evaluators/expression/expression.hpp"

namespace cultivar {

// Fully parenthesised C++ over doubles of the same names. Functions keep their names; `^` becomes std::pow;
// what C++ spells differently from muParser is translated. An Error quotes what could not be read.
Expected<std::string> to_cpp(const Expression&);

}  // namespace cultivar
