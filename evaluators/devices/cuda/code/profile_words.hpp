// SPDX-License-Identifier: Apache-2.0
// How profiles of the cuda target are explained. A new rule is one function and one line in a table.
#pragma once

#include "evaluators/profile/bottleneck.hpp"

namespace cultivar {

const ProfileWords& cuda_profile_words();

}  // namespace cultivar
