// A run's record, as an agent's tools read it. No measurement on holdout shapes is shown.
#pragma once

#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "operators/agent/bench.hpp"

namespace cultivar {

std::string situation_of(const Record&);  // the run and its best kernel, as text
Expected<std::vector<KernelRow>> kernels_in(const Record&, const KernelQuery&);
Expected<Kernel> kernel_in(const Record&, const std::string& name);

}  // namespace cultivar
