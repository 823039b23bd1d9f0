// Text of others - compilers, candidates, contenders - made fit to be shown and kept.
#pragma once

#include <string>
#include <string_view>

namespace cultivar {

// Control characters are spelled out (\x1b), so that no text moves a terminal's cursor, and so are those that
// turn the direction of writing or show nothing (\u202e): what is read must be what is there. Line ends and
// tabs stay.
std::string plain_text(std::string_view);
// One line of at most so many bytes; what is left out is marked. Never ends within a UTF-8 character.
std::string plain_line(std::string_view, std::size_t most_bytes);

// As a shell reads it back: in quotes, if it must be.
std::string shell_word(std::string_view);

}  // namespace cultivar
