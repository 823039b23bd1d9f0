// SPDX-License-Identifier: Apache-2.0
// A diff of two sources, for people and models.
#pragma once

#include <string>
#include <string_view>

namespace cultivar {

// Unified format with three lines of context and without a header; empty if the texts are equal. If the texts
// have too many lines to compute the shortest diff, the result is one large change.
std::string line_diff(std::string_view before, std::string_view after);

}  // namespace cultivar
