// Cards whose numbers are known without having one: plans can be checked and kernels compiled on a machine
// with no GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct KnownDevice {
  std::string name;          // "h100"
  std::string architecture;  // what NVRTC calls its machine code: "sm_90a"
  Facts facts;               // every name of facts_of(TargetKind::cuda)
};

const std::vector<KnownDevice>& known_devices();
// nullptr: unknown. Names are lower case, as in "h200".
const KnownDevice* known_device(std::string_view name);

// The architecture that compiles everything a card of this compute capability can do: 90 -> "sm_90a", 80 ->
// "sm_80". From 9.0 on machine code of the family's own instructions (wgmma, tcgen05) needs the `a`.
std::string architecture_of(int compute_capability);
// Nothing when this is how an architecture that Cultivar serves (8.0 and up) is written, whether or not there
// is one; else what is wrong, with an example.
std::string trouble_with_architecture(std::string_view name);

}  // namespace cultivar
