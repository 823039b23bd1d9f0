// The inbox of a run: one JSON file for each submitted variant, written atomically.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/run_folder.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/variant/tunables.hpp"
#include "population/individual.hpp"

namespace cultivar {

struct Submission {
  std::filesystem::path file;
  std::string source, note;
  Configuration configuration;
  std::vector<IndividualId> parents;  // individuals of this run; not checked to exist
};

struct Inbox {
  std::vector<Submission> submissions;  // in the order of their names, which start with the time
  std::vector<std::string> troubles;    // one message for each invalid file, which was moved aside
};

Inbox waiting_submissions(const RunFolder&);
// Moves an invalid file out of the inbox and keeps it. Returns the message to report; empty if the file could
// not be moved.
std::string put_aside(const RunFolder&, const std::filesystem::path& file, const std::string& why);
// The file of a waiting submission with the same kernel.
std::optional<std::filesystem::path> waiting_like(const RunFolder&, const std::string& source,
                                                  const Configuration&);
Expected<std::filesystem::path> put_submission(const RunFolder&, const Submission&);

}  // namespace cultivar
