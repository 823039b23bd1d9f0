// The text of evaluators/task/cultivar_reference.hpp, so that an installed program can compile oracles
// without the source tree. The build generates the definition.
#pragma once

#include <string_view>

namespace cultivar {

extern const std::string_view kReferenceHeader;

}  // namespace cultivar
