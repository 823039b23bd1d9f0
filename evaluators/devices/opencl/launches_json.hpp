// SPDX-License-Identifier: Apache-2.0
// The launches of a plan in the form in which cultivar-opencl reads them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

nlohmann::json launches_json(const Plan&);

}  // namespace cultivar
