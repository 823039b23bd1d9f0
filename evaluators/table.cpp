// SPDX-License-Identifier: Apache-2.0
// The devices (which users call targets) and the languages that the programs know, one line each. The first
// device is what a configuration that names none means; the first language of a device is that of a manifest
// that names none. Part of no library: every program links it, or a table of its own.
#include "evaluators/target/language.hpp"

namespace cultivar {

// The rows, each in the file traits.cpp of its folder.
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
  };
  return all;
}

std::span<const Language> languages() {
  static const Language all[] = {
      cpp_language(),
      cuda_cpp_language(),
      opencl_c_language(),
      triton_language(),
  };
  return all;
}

}  // namespace cultivar
