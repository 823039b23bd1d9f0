// SPDX-License-Identifier: Apache-2.0
// Cards whose facts are built in, so that plans can be checked and kernels compiled on a machine without a
// GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct KnownDevice {
  std::string name;          // "h100"
  std::string architecture;  // NVRTC's name of its architecture: "sm_90a"
  Facts facts;               // every name of the row's facts (../traits.cpp)
};

const std::vector<KnownDevice>& known_devices();
// nullptr if unknown. Names are lower case, as in "h200".
const KnownDevice* known_device(std::string_view name);

// The architecture that supports every instruction of a card with this compute capability: 90 -> "sm_90a", 80
// -> "sm_80". From 9.0 on, architecture-specific instructions (wgmma, tcgen05) need the suffix `a`.
std::string architecture_of(int compute_capability);
// Empty if the name has the form of an architecture that Cultivar supports (8.0 or later), whether or not it
// exists; otherwise what is wrong, with an example.
std::string trouble_with_architecture(std::string_view name);
// Which seeds and contenders need another architecture, and what to do; empty: none.
std::string without_hopper(std::string_view architecture);

}  // namespace cultivar
