// SPDX-License-Identifier: Apache-2.0
// A part of a task's domain for which a bundle holds all code: `cultivar export --cover "R: 1-65536, C:
// 256-16384 step 8"`.
#pragma once

#include <vector>

#include "engine/export/domain.hpp"
#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// One workload for each specialization of the ranges that the kernel claims and its workloads do not have.
// What the ranges do not name is as in the first workload. An error if that is too much to try or to build.
Expected<std::vector<Workload>> covered_workloads(const LauncherInput&, const std::vector<ValueRange>&);

}  // namespace cultivar
