// SPDX-License-Identifier: Apache-2.0
// The position of a manifest in its source, and of its parts in the manifest. Private to this folder.
#pragma once

#include <string>
#include <string_view>

#include "evaluators/variant/manifest.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

struct ManifestText {
  std::string_view yaml;
  int first_line = 1;     // line of the source where the YAML starts
  std::string_view code;  // everything after the comment
  CommentSyntax comments = {};
};

tl::expected<ManifestText, ManifestError> find_manifest(std::string_view source);
// Returns the YAML tree; throws YamlError.
YamlNode manifest_tree(const ManifestText&);
// The line of "tensor_maps.map_q.box" or "launch[0].args[3]", or of the closest enclosing element; 0 if
// unknown.
int line_of(std::string_view source, std::string_view path);

}  // namespace cultivar
