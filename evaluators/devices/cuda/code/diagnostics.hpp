// SPDX-License-Identifier: Apache-2.0
// Turns the output of NVRTC and ptxas into messages that help to repair a kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// The first error, in one line: "variant.cu(12): error: ...".
std::string first_error(std::string_view log);
// The macro ("T=64") that breaks a header of NVRTC or its toolkit: one that the first errors' lines in those
// headers use as a name of their own. Empty if there is none.
std::string colliding_macro(std::string_view log, const std::vector<std::string>& macros);
// The log. ptxas refers to lines of generated PTX, so each such line is appended, with the source file and
// line that it comes from.
std::string repair_words(std::string_view log, std::string_view ptx, std::size_t most_bytes);
// Removes lines that differ from one compile to the next.
std::string without_times(std::string_view log);
// Keeps only the beginning and the end of a text that is too long.
std::string cut(std::string_view text, std::size_t most_bytes);

}  // namespace cultivar
