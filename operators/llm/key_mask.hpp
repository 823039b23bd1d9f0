// SPDX-License-Identifier: Apache-2.0
// Removes keys from the output of programs and providers before it is recorded or shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// "sk-...", "ghp_...": prefixes of the keys of known services.
bool begins_like_a_key(std::string_view word);

class KeyMask {
 public:
  KeyMask() = default;
  // Masks the current values of these variables, and of every variable of this process with a typical suffix:
  // _API_KEY, _ACCESS_KEY, _TOKEN, _SECRET, _PASSWORD.
  explicit KeyMask(const std::vector<std::string>& variables);

  // Replaces each value, and a truncated prefix of one, by "[key]". Also for answers.
  std::string without_values(std::string text) const;
  // Also replaces every word that looks like a key. For error messages.
  std::string without_keys(std::string text) const;

 private:
  std::vector<std::string> values_;  // longest first, because one may be a prefix of another
};

}  // namespace cultivar
