// SPDX-License-Identifier: Apache-2.0
// The plain keys of a section as one list, which reads the section and writes it out.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

struct Seconds {
  double* value;
  bool may_be_zero = false;
};
struct Setting {
  const char* key;
  std::variant<int*, std::int64_t*, double*, bool*, Seconds> value;  // outlive the setting
  double least = 0.0, most = 0.0;                                    // of a number
};
using Settings = std::vector<Setting>;

// A key that is absent leaves its value as it is.
void read_settings(YamlMap&, const Settings&);
std::string flow_text(const Settings&);   // "{islands: 4, elites: 32}"
std::string block_text(const Settings&);  // lines, each with an indentation of two

}  // namespace cultivar
