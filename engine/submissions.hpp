// The inbox of a run: one JSON file for each hand-written variant, put there whole or not at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/run_folder.hpp"
#include "evaluators/error.hpp"
#include "evaluators/variant/tunables.hpp"
#include "population/individual.hpp"

namespace cultivar {

struct Submission {
  std::filesystem::path file;
  std::string source, note;
  Configuration configuration;
  std::vector<IndividualId> parents;  // of this run, that it was made from; may be unknown
};

struct Inbox {
  std::vector<Submission> submissions;  // in the order of their names, which begin with the time
  std::vector<std::string> troubles;  // files that are no submission and were put aside, each with the reason
};

Inbox waiting_submissions(const RunFolder&);
// Moves a file that is no submission out of the inbox, with what it holds. What is to be said of it; empty:
// it could not be moved.
std::string put_aside(const RunFolder&, const std::filesystem::path& file, const std::string& why);
// The file of one that is the same kernel.
std::optional<std::filesystem::path> waiting_like(const RunFolder&, const std::string& source,
                                                  const Configuration&);
Expected<std::filesystem::path> put_submission(const RunFolder&, const Submission&);

}  // namespace cultivar
