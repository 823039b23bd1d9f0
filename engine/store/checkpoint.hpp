// Whole copies of the record, and the way back to them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/run_folder.hpp"
#include "evaluators/error.hpp"

namespace cultivar {

// Copies the record by SQLite's backup API over a connection of its own, checks the copy, syncs it, renames
// it into checkpoints/ and removes all but the newest `keep`. Safe while the search writes, from any thread,
// one at a time.
Expected<std::filesystem::path> make_checkpoint(const RunFolder&, int keep);

std::vector<std::filesystem::path> checkpoints_newest_first(const RunFolder&);

// Empty: whole. Otherwise what is wrong with the database, in SQLite's words. `thorough` reads all of it;
// otherwise only the tables that a search needs to go on.
std::string damage_of(const std::filesystem::path& database, bool thorough);

// Puts the damaged database aside, restores the newest good checkpoint and copies over everything newer that
// can still be read. Says in words what was done and what was lost. The caller holds the run's lock.
Expected<std::string> recover(const RunFolder&, const std::string& damage);

// Writes beside `file`, syncs, renames: the file is whole, old or new, at any instant.
Expected<void> write_atomically(const std::filesystem::path& file, const std::string& bytes);

}  // namespace cultivar
