#include "evaluators/targets/cuda/visible_gpu.hpp"

#include <fmt/format.h>

#include <sstream>
#include <vector>

namespace cultivar {

Expected<std::string> visible_gpu(const std::optional<std::string>& listed, int index) {
  if (!listed) return std::to_string(index);
  std::vector<std::string> entries;
  std::istringstream text(*listed);
  for (std::string entry; std::getline(text, entry, ',');) {
    const std::size_t first = entry.find_first_not_of(' '), last = entry.find_last_not_of(' ');
    // The driver reads up to the first entry that is none: "0,-1,2" shows one GPU.
    if (first == entry.npos || entry[first] == '-') break;
    entries.push_back(entry.substr(first, last - first + 1));
  }
  if (index < 0 || static_cast<std::size_t>(index) >= entries.size())
    return failure("missing", fmt::format("CUDA_VISIBLE_DEVICES is '{}': it shows {} GPU{}, and there is no "
                                          "number {} among them (they count from 0)",
                                          *listed, entries.size(), entries.size() == 1 ? "" : "s", index));
  return entries[static_cast<std::size_t>(index)];
}

}  // namespace cultivar
