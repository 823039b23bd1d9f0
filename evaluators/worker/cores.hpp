// Which cores a worker, and all that it starts, may run on.
#pragma once

#include <vector>

namespace cultivar {

std::vector<int> usable_cores();  // that this process may run on, ascending

// Confines this process to so many of them, on as many physical cores as there are. With fewer than that
// nothing changes. Call it before threads are started: they inherit it.
void stay_on_cores(int count);

}  // namespace cultivar
