// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/shell_words.hpp"

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::string shell_words(const std::vector<std::string>& command) {
  std::string words;
  for (const std::string& word : command) words += (words.empty() ? "" : " ") + shell_word(word);
  return words;
}

}  // namespace cultivar
