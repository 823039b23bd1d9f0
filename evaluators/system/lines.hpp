// SPDX-License-Identifier: Apache-2.0
// The lines of a text, as views into it.
#pragma once

#include <string_view>
#include <vector>

namespace cultivar {

std::vector<std::string_view> lines_of(std::string_view text);         // without their ends
std::vector<std::string_view> lines_with_ends(std::string_view text);  // joined they are the text

}  // namespace cultivar
