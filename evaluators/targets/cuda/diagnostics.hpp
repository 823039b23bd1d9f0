// What NVRTC and ptxas print, made into words that a kernel can be repaired by.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// The first error in one line: "variant.cu(12): error: ...".
std::string first_error(std::string_view log);
// The name of the macro ("T=64") that breaks a header of NVRTC or of its toolkit, where the first errors are
// in lines of theirs that use it for something of their own; empty: none does.
std::string colliding_macro(std::string_view log, const std::vector<std::string>& macros);
// The log; ptxas names lines of PTX that nobody has seen, so each of those follows, with the file and
// line of the source it comes from.
std::string repair_words(std::string_view log, std::string_view ptx, std::size_t most_bytes);
// Without the lines that differ from one compile to the next.
std::string without_times(std::string_view log);
// The first and the last half, when it is too long.
std::string cut(std::string_view text, std::size_t most_bytes);

}  // namespace cultivar
