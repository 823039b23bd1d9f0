// The row of this machine's cores.
#pragma once

#include "evaluators/target/traits.hpp"

namespace cultivar {

Target cpu_target();

}  // namespace cultivar
