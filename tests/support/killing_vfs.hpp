// SPDX-License-Identifier: Apache-2.0
// SQLite's file access, with a process that dies at a chosen write.
#pragma once

#include <cstdint>

namespace cultivar::testing {

// Every change that SQLite makes to files: writes, syncs, truncations and deletions, of all databases of this
// process, counted from 1. From now on all of them are counted, and the process kills itself with SIGKILL
// instead of making the `at`-th (0: never); if that is a write and `torn`, after the first half of its bytes.
// Call it once, before any database is opened. Files that others write (the witness, renames) are not
// counted.
void die_at_boundary(std::int64_t at, bool torn = false);

std::int64_t boundaries_passed();

}  // namespace cultivar::testing
