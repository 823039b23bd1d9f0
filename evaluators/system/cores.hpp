// SPDX-License-Identifier: Apache-2.0
// The cores on which a worker and its child processes may run.
#pragma once

#include <vector>

namespace cultivar {

std::vector<int> usable_cores();  // the cores on which this process may run, ascending

// Restricts this process to `count` cores, on as many physical cores as possible. Does nothing if fewer are
// available. Call it before threads are started, because they inherit the restriction.
void stay_on_cores(int count);

}  // namespace cultivar
