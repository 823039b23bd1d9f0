// SPDX-License-Identifier: Apache-2.0
// How much a record held after its last step, in a small file next to it. A log of the database (run.db-wal)
// that is deleted, cut or damaged takes its newest steps with it, and what remains looks intact: only this
// file and newer checkpoints show that something is missing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/store/run_folder.hpp"

namespace SQLite {
class Database;
}

namespace cultivar {

// Counts that only grow.
struct Extent {
  std::int64_t steps = 0;  // since the version of Cultivar that counts them
  std::int64_t decisions = 0, individuals = 0, evaluations = 0, exchanges = 0;
};
Extent extent_of(SQLite::Database&);
// "12 decisions, 5 individuals, 5 evaluations"; empty if `has` lacks nothing of `had`.
std::string missing_text(const Extent& has, const Extent& had);

// For who only reads the record: what of it is missing and the remedy; empty if nothing is.
std::string lost_steps(SQLite::Database&, const RunFolder&);

// nullopt: there is none, or it cannot be read.
std::optional<Extent> witnessed(const RunFolder&);
// What the last session wrote by write_end(), if it did.
std::optional<std::string> witnessed_end(const RunFolder&);

// For the one process that holds the run's lock.
class Witness {
 public:
  explicit Witness(const RunFolder&);
  Witness(Witness&&) noexcept;
  Witness& operator=(Witness&&) noexcept;
  ~Witness();
  // Written after each step, without a sync: a step is on disk before it is witnessed. Failures are ignored:
  // the record does not need it.
  void write(const Extent&);
  // Why the search ended, for a record that could not be written any more. Takes no space on the disk.
  void write_end(const std::string& reason);

 private:
  int descriptor_ = -1;
  bool begun_ = false;  // in this session
};

}  // namespace cultivar
