// SPDX-License-Identifier: Apache-2.0
// Whether the process of a running search lives, and still records.
#pragma once

#include <string>

#include "engine/store/run_folder.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

// For a record that says that its search runs or waits: sets the process and the age of the heartbeat, which
// is in seconds since 1970 (empty: from a version that recorded none), and the state to frozen or stopped if
// it is not running.
void set_liveness(Summary&, const RunFolder&, const std::string& heartbeat);

}  // namespace cultivar
