// SPDX-License-Identifier: Apache-2.0
// Whether a text contains another, for tests of output and messages.
#pragma once

#include <string_view>

namespace cultivar::testing {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace cultivar::testing
