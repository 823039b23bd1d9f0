// SPDX-License-Identifier: Apache-2.0
// The result of a target's screen of a compiled variant (stage 2).
#pragma once

#include <string>

namespace cultivar {

struct ScreenVerdict {
  std::string reason = {};       // one line; empty if passed
  std::string diagnostics = {};  // what to change in the source
  bool passed() const { return reason.empty(); }
};

}  // namespace cultivar
