// SPDX-License-Identifier: Apache-2.0
// The targets that the programs know, one line each; the first is what a configuration that names none means.
// Part of no library: every program links it, or a table of its own.
#include "evaluators/devices/cpu/traits.hpp"
#include "evaluators/devices/cuda/traits.hpp"

namespace cultivar {

std::span<const Target> targets() {
  static const Target all[] = {
      cpu_target(),
      cuda_target(),
  };
  return all;
}

}  // namespace cultivar
