// What a target's screen says of a compiled variant (stage 2).
#pragma once

#include <string>

namespace cultivar {

struct ScreenVerdict {
  std::string reason = {};       // one line; empty: passed
  std::string diagnostics = {};  // what to change
  bool passed() const { return reason.empty(); }
};

}  // namespace cultivar
