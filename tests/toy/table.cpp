// SPDX-License-Identifier: Apache-2.0
// evaluators/table.cpp with two lines more.
#include "evaluators/devices/cpu/traits.hpp"
#include "evaluators/devices/cuda/traits.hpp"
#include "evaluators/languages/cpp/traits.hpp"
#include "evaluators/languages/cuda_cpp/traits.hpp"
#include "toy/device/toy_device.hpp"
#include "toy/language/toy_language.hpp"

namespace cultivar {

std::span<const Target> targets() {
  static const Target all[] = {
      cpu_target(),
      cuda_target(),
      toy::toy_device(),
  };
  return all;
}

std::span<const Language> languages() {
  static const Language all[] = {
      cpp_language(),
      cuda_cpp_language(),
      toy::toy_language(),
  };
  return all;
}

}  // namespace cultivar
