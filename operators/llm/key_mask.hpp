// Keys taken out of what programs and providers say, before it is recorded or shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// "sk-...", "ghp_...": how the keys of known services begin.
bool begins_like_a_key(std::string_view word);

class KeyMask {
 public:
  KeyMask() = default;
  // The values that these variables have now, and those of every variable of this process whose name ends
  // like a key's: _API_KEY, _ACCESS_KEY, _TOKEN, _SECRET, _PASSWORD.
  explicit KeyMask(const std::vector<std::string>& variables);

  // "[key]" in place of each value, and of the beginning of one that was cut off. For answers, too.
  std::string without_values(std::string text) const;
  // Also in place of every word that is shaped like a key. For what is shown as an error.
  std::string without_keys(std::string text) const;

 private:
  std::vector<std::string> values_;  // the longest first: one may begin with another
};

}  // namespace cultivar
