// What of a bundle depends on the target.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/export/launcher_parts.hpp"
#include "engine/search.hpp"

namespace cultivar {

struct TargetParts {
  std::map<std::string, std::string> files;                // the launcher and what it needs
  std::string_view cmake, bench, device;                   // templates
  std::map<std::string, std::string, std::less<>> values;  // for templates
  std::vector<std::string> architectures;                  // cuda
};

Expected<TargetParts> cpu_parts(const LauncherInput&, const std::vector<Specialisation>&,
                                const std::vector<std::string>& architectures);
// Compiles, in the surface's workers. Throws MissingError where there is no NVRTC, or it does not know an
// architecture.
Expected<TargetParts> cuda_parts(const LauncherInput&, const std::vector<Specialisation>&, const Surface&,
                                 std::vector<std::string> architectures);

}  // namespace cultivar
