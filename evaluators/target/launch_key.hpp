// SPDX-License-Identifier: Apache-2.0
// What a manifest may say of one launch besides its kernel and its arguments: grid and block on a GPU,
// threads on a host. Each target lists its keys; parsing, checking, writing and planning follow the list.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

struct LaunchKey {
  enum class Form {
    number,  // one expression
    three,   // [x, y, z]
    flag     // true or false; false is the same as absent
  };
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  std::string name;
  Form form = Form::number;
  bool required = false;
  std::string fallback = {};  // of a number: the expression where the key is absent; empty: none
  std::int64_t least = 1;
  std::array<std::int64_t, 3> most{kNoLimit, kNoLimit, kNoLimit};  // a number's limit is the first
  std::string most_fact = {};  // a device fact that is the limit where it is known

  std::size_t values() const { return form == Form::three ? 3 : 1; }
};

// A launch's keys, evaluated for one workload. A key that is absent has no entry.
class LaunchNumbers {
 public:
  void set(std::string_view key, std::initializer_list<std::int64_t> values) {
    values_[std::string(key)] = values;
  }
  void add(std::string_view key, std::int64_t value) { values_[std::string(key)].push_back(value); }

  std::int64_t number(std::string_view key, std::int64_t otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : found->second.front();
  }
  std::array<std::uint32_t, 3> three(std::string_view key) const {  // absent: 1, 1, 1
    std::array<std::uint32_t, 3> all{1, 1, 1};
    if (const auto found = values_.find(key); found != values_.end())
      for (std::size_t i = 0; i < all.size() && i < found->second.size(); ++i)
        all[i] = static_cast<std::uint32_t>(found->second[i]);
    return all;
  }
  bool flag(std::string_view key) const { return number(key, 0) != 0; }
  const std::map<std::string, std::vector<std::int64_t>, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, std::vector<std::int64_t>, std::less<>> values_;
};

// What is wrong between the keys of one launch: "block", "has 1536 threads; the limit is 1024".
struct LaunchTrouble {
  std::string key, what;
};

}  // namespace cultivar
