// SPDX-License-Identifier: Apache-2.0
// Facts about this machine, from /proc, /sys and the processor itself.
#pragma once

#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

std::string processor_model();  // "AMD EPYC 9654"
Facts cpu_facts();

}  // namespace cultivar
