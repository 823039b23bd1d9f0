// SPDX-License-Identifier: Apache-2.0
// Text from other sources (compilers, candidates, contenders): as lines, and made safe to show and store.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// Views into the text.
std::vector<std::string_view> lines_of(std::string_view text);         // without their ends
std::vector<std::string_view> lines_with_ends(std::string_view text);  // joined they are the text

// Escapes control characters (\x1b), so that no text moves a terminal's cursor, and characters that change
// the writing direction or are invisible (\u202e), so that the reader sees what the text contains. Line ends
// and tabs stay.
std::string plain_text(std::string_view);
// The same, and also spells out bytes that are not UTF-8: for terminals, and for files that must be UTF-8.
std::string utf8_text(std::string_view);
// As XML's text or attribute.
std::string xml_text(std::string_view);
// One line for behind // in C++: it ends with this line, also for a compiler.
std::string cpp_comment(std::string_view);
// For between the quotes of a C++ or Python string.
std::string in_quotes(std::string_view);
// Where the UTF-8 character begins that holds the byte `at`: a text cut there stays UTF-8. At most its size.
std::size_t character_start(std::string_view text, std::size_t at);
// One line of at most this many bytes; omitted text is marked. Never splits a UTF-8 character.
std::string plain_line(std::string_view, std::size_t most_bytes);

// Quoted, if necessary, so that a shell reads back the same text.
std::string shell_word(std::string_view);

// Its words, each quoted where a shell needs it: `sh -c 'exit 1'`.
std::string shell_words(const std::vector<std::string>& command);

// The first line of a text, without control characters, of a bounded length.
std::string one_line_of(std::string_view text, std::size_t most);

}  // namespace cultivar
