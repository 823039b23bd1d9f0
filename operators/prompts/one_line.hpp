// SPDX-License-Identifier: Apache-2.0
// One line for the record and for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cultivar {

// The first line of a text, without control characters, of a bounded length.
std::string one_line_of(std::string_view text, std::size_t most);

}  // namespace cultivar
