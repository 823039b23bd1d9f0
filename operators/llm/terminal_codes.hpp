// SPDX-License-Identifier: Apache-2.0
// Programs that believe that they write to a terminal put codes for colors, the cursor and titles into their
// output.
#pragma once

#include <string>

namespace cultivar {

// The text without the escape sequences of ECMA-48 (CSI, OSC and other strings, single functions).
std::string without_terminal_codes(std::string text);

}  // namespace cultivar
