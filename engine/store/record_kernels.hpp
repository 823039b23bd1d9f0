// SPDX-License-Identifier: Apache-2.0
// A run's record, as an agent's tools read it. No measurement on holdout shapes is shown.
#pragma once

#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "operators/agent/bench.hpp"

namespace cultivar {

std::string situation_of(const Record&);  // the run and its best kernel, as text
Expected<std::vector<KernelRow>> kernels_in(const Record&, const KernelQuery&);
// Also a draft of an agent's conversation: "q5.d1" is d1 of question 5, "m2.d1" of the second `cultivar mcp`.
Expected<Kernel> kernel_in(const Record&, const std::string& name);
// The newest drafts of all agents' conversations but this one.
std::vector<KernelRow> drafts_in(const Record&, const std::string& but);
// By a number or a variant id; one that is not in the record waits in the inbox. `running`: whether a search
// will decide.
Expected<Outlook> outlook_in(const Record&, const std::string& id, bool running);

}  // namespace cultivar
