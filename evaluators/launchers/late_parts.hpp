// SPDX-License-Identifier: Apache-2.0
// What a launcher needs for specializations that were not built in: the question for their code
// (templates/supplier.hpp.in), and where it is kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

// What differs between the targets.
struct LateWords {
  std::string (*fact)(const std::string&, double);
  bool on_this_device = false;
  // C++: parameters of the fallback and of late(), statements before a question, and some that say for which
  // hardware.
  std::string fallback_parameters = {}, parameter = {}, forbidden = {}, hardware = {};
};

// The expression that returns the index of the specialization for the numbers of the call; `given` follows
// its arguments.
std::string late_call(const LauncherInput&, std::string_view given = {});
// A test of the values of one that came later against those of the call.
std::string late_values(const LauncherInput&);
// The placeholders {{supplier}}, {{late_public}} and {{supplied}} of a launcher.
Expected<std::map<std::string, std::string, std::less<>>> late_parts(const LauncherInput&,
                                                                     const std::vector<Specialisation>&,
                                                                     const LateWords&);
// late/sources.hpp: the kernels' sources, embedded in the program. `files`: of each, relative to the bundle's
// folder, the main file first.
struct SourcesOfKernel {
  std::string identity;  // short
  std::vector<std::string> files;
};
std::string embedded_sources(const std::string& task, const std::vector<SourcesOfKernel>&);
// Its kernels, each once, in the order of the plan's launches.
std::vector<std::string> entries_of(const Variant&);

}  // namespace cultivar
