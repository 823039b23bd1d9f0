// SPDX-License-Identifier: Apache-2.0
// Complete copies of the record, and recovery from them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

// Copies the record with SQLite's backup API over its own connection, checks the copy, syncs it, renames it
// into checkpoints/ and removes all but the newest `keep`. Safe while the search writes, from any thread, one
// call at a time.
Expected<std::filesystem::path> make_checkpoint(const RunFolder&, int keep);

std::vector<std::filesystem::path> checkpoints_newest_first(const RunFolder&);

// Empty if the database is intact, otherwise SQLite's description of the damage. `thorough` reads all of it;
// otherwise only the tables that a search needs to resume.
std::string damage_of(const std::filesystem::path& database, bool thorough);

// Moves the damaged database aside, restores the newest good checkpoint and copies all newer data that can
// still be read. Returns a message that says what was done and what was lost. The caller holds the run's
// lock.
Expected<std::string> recover(const RunFolder&, const std::string& damage);

// Notices that an intact database lacks steps that were recorded: a checkpoint, or the witness, knows more.
// Restores the newest good checkpoint if it holds more than the database. Returns a message that says what
// was restored and what was lost; empty if nothing is missing. The caller holds the run's lock.
Expected<std::string> restore_lost_steps(const RunFolder&);

}  // namespace cultivar
