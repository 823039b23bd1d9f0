// Shared by `run` and `resume`: the progress line, the end of a search, its summary and its export.
#pragma once

#include <filesystem>
#include <functional>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/output.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

Installation installation_of(const InstallationPaths&);
Runtime runtime_of(const InstallationPaths&);

// Doubles every exhausted budget, as options for `resume`: " --set budget.tokens=120000"; empty if none is.
// `models_too`: also the budgets of language models, because the rest is too small for another call.
std::string twice_what_is_spent(const Summary&, bool models_too = false);

// Returns the command's exit code.
int search_session(const InstallationPaths&, const std::filesystem::path& run_folder, const Output&,
                   bool verbose,
                   const std::function<Expected<Outcome>(const Runtime&, const SearchCallbacks&)>& search);

}  // namespace cultivar
