// SPDX-License-Identifier: Apache-2.0
// A launch's keys as the driver takes them.
#pragma once

#include <array>
#include <cstdint>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

struct Geometry {
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::size_t shared_bytes = 0;  // dynamic
  bool cooperative = false, programmatic_dependent = false;

  explicit Geometry(const LaunchNumbers& launch)
      : grid(launch.three("grid")),
        block(launch.three("block")),
        cluster(launch.three("cluster")),
        shared_bytes(static_cast<std::size_t>(launch.number("shared", 0))),
        cooperative(launch.flag("cooperative")),
        programmatic_dependent(launch.flag("programmatic_dependent")) {}
};

inline std::uint64_t product(const std::array<std::uint32_t, 3>& v) {
  return std::uint64_t{v[0]} * v[1] * v[2];
}

}  // namespace cultivar
