// SPDX-License-Identifier: Apache-2.0
// The tree behind YamlNode. Private to this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

struct YamlData {
  struct Entry {
    std::string key;
    int line = 0;  // line of the key
    std::shared_ptr<const YamlData> value;
  };
  YamlNode::Kind kind = YamlNode::Kind::null;
  int line = 0;
  bool quoted = false;
  std::string text;
  std::vector<std::shared_ptr<const YamlData>> items;
  std::vector<Entry> entries;
  std::shared_ptr<const std::string> origin;
};

}  // namespace cultivar
