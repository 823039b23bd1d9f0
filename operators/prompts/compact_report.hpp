// What a profile says, in a page, for a prompt.
#pragma once

#include <string>
#include <vector>

#include "evaluators/profile/profile.hpp"

namespace cultivar {

// In parts, most useful first, each of which is good alone: what weighs most and what differs from `before`
// (may be null), then the lines that stall, some in each part. Where room is short the last parts go first.
std::vector<std::string> compact_report(const Profile&, const Profile* before);

}  // namespace cultivar
