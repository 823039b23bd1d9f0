// The inbox of a run: one JSON file for each hand-written variant, put there whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/run_folder.hpp"
#include "evaluators/error.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

struct Submission {
  std::filesystem::path file;
  std::string source, note;
  Configuration configuration;
};

// In the order of their names, which begin with the time. A file that is no submission is left alone.
std::vector<Submission> waiting_submissions(const RunFolder&);
Expected<std::filesystem::path> put_submission(const RunFolder&, const Submission&);

}  // namespace cultivar
