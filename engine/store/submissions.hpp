// SPDX-License-Identifier: Apache-2.0
// The inbox of a run: one JSON file for each submitted variant, written atomically. Others write there too,
// so what lies in it may be anything; it is checked here, where it is read.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/store/record.hpp"
#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/variant/tunables.hpp"
#include "population/individual.hpp"

namespace cultivar {

inline constexpr std::size_t most_submission_bytes = std::size_t{4} << 20, most_note_bytes = 4000;

struct Submission {
  std::filesystem::path file;
  std::string source, note;
  Configuration configuration;
  std::vector<IndividualId> parents;  // individuals of this run; not checked to exist
};

// What is wrong with a submission's note or parents, besides their existence; empty if nothing.
std::string submission_trouble(const Submission&);

// The inbox as a search reads it. Not thread-safe.
class Inbox {
 public:
  explicit Inbox(RunFolder folder) : folder_(std::move(folder)) {}

  struct Found {
    std::vector<Submission> submissions;  // in the order of their names, which start with the time
    std::vector<std::string> troubles;    // one message for each invalid file, which was moved aside
  };
  // The oldest files, a few at a time, so that no number of them delays the search.
  Found look();
  void remove(const Submission&);  // it is in the record
  // Moves an invalid file out of the inbox and keeps it. Returns the message to report; empty if the file
  // could not be moved.
  std::string put_aside(const std::filesystem::path& file, const std::string& why);

 private:
  RunFolder folder_;
  std::set<std::string> stuck_;  // could be neither moved nor removed: not read again by this search
};

// What the run holds of the same kernel: an individual that is not rejected, otherwise the newest.
struct Twin {
  IndividualId id = 0;
  bool rejected = false;  // for what it is, not as a duplicate of another one
};
std::optional<Twin> twin_of(const Record&, const std::string& variant_id);

// The file of a waiting submission with the same kernel, among the newest.
std::optional<std::filesystem::path> waiting_like(const RunFolder&, const std::string& source,
                                                  const Configuration&);
Expected<std::filesystem::path> put_submission(const RunFolder&, const Submission&);

}  // namespace cultivar
