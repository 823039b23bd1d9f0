// SPDX-License-Identifier: Apache-2.0
// A one-page summary of a profile, for a prompt.
#pragma once

#include <string>
#include <vector>

#include "evaluators/profile/profile.hpp"

namespace cultivar {

// In parts, most useful first, each useful without the later ones: the main findings and the differences from
// `before` (may be null), then the source lines with stalls, several per part. If space is short, the last
// parts are dropped first.
std::vector<std::string> compact_report(const Profile&, const Profile* before);

}  // namespace cultivar
