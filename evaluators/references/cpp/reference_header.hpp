// SPDX-License-Identifier: Apache-2.0
// The text of evaluators/references/cultivar_reference.hpp, so that an installed program can compile oracles
// without the source tree. The build generates the definition.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cultivar {

extern const std::string_view kReferenceHeader;
// SHA-256 of each reference.cpp that comes with Cultivar.
extern const std::set<std::string> kOwnReferences;

}  // namespace cultivar
