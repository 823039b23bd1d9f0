// SPDX-License-Identifier: Apache-2.0
// The locations of programs and sources: beside the running test in a bundle (bin/, source/), or where they
// were built.
#pragma once

#include <filesystem>

namespace cultivar::testing {

inline std::filesystem::path running_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}
inline std::filesystem::path programs_folder() {
  const std::filesystem::path here = running_folder();
  return std::filesystem::exists(here / "cultivar-nvrtc") ? here : std::filesystem::path(CULTIVAR_BIN_DIR);
}
inline std::filesystem::path source_folder() {
  const std::filesystem::path beside = running_folder() / "../source";
  return std::filesystem::exists(beside) ? beside : std::filesystem::path(CULTIVAR_SOURCE_DIR);
}
inline std::filesystem::path tests_cache() {
  return programs_folder() / "../cache/tests";
}

}  // namespace cultivar::testing
