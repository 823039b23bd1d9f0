// SPDX-License-Identifier: Apache-2.0
// The difference of two sources as lines, and how alike two changes of sources are: without layout, comments,
// and the names and descriptions of manifests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// The source's lines as tokens separated by one blank; lines of punctuation only are left out.
std::vector<std::string> bare_lines(std::string_view source);

// What turns one source into another: its lines that are new, and the lines that are gone; each sorted.
struct SourceChange {
  std::vector<std::string> added, removed;

  bool empty() const { return added.empty() && removed.empty(); }
};
SourceChange change_between(const std::vector<std::string>& before, const std::vector<std::string>& after);

// True if two changes do the same in nearly the same words: at least four fifths of their pairs of adjacent
// tokens are equal, and so are the numbers of the new lines, because another number is another experiment.
bool nearly_same(const SourceChange&, const SourceChange&);

// A diff for people and models, in unified format with three lines of context and without a header; empty if
// the texts are equal. If the texts have too many lines to compute the shortest diff, the result is one large
// change.
std::string line_diff(std::string_view before, std::string_view after);

}  // namespace cultivar
