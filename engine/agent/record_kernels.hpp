// A run's record, as an agent's tools read it. Of a confirmation no figure of unseen shapes is told.
#pragma once

#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "operators/agent/bench.hpp"

namespace cultivar {

std::string situation_of(const Record&);  // the run and its best kernel, in words
Expected<std::vector<KernelRow>> kernels_in(const Record&, const KernelQuery&);
Expected<Kernel> kernel_in(const Record&, const std::string& name);

}  // namespace cultivar
