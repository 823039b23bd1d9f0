// SPDX-License-Identifier: Apache-2.0
// evaluators/table.cpp with two lines more.
#include "toy/device/toy_device.hpp"
#include "toy/language/toy_language.hpp"

namespace cultivar {

Target cpu_target();
Target cuda_target();
Target opencl_target();
Language cpp_language();
Language cuda_cpp_language();
Language opencl_c_language();
Language triton_language();

std::span<const Target> targets() {
  static const Target all[] = {
      cpu_target(),
      cuda_target(),
      opencl_target(),
      toy::toy_device(),
  };
  return all;
}

std::span<const Language> languages() {
  static const Language all[] = {
      cpp_language(), cuda_cpp_language(), opencl_c_language(), triton_language(), toy::toy_language(),
  };
  return all;
}

}  // namespace cultivar
