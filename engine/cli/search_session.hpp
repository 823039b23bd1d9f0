// What `run` and `resume` share: the live line, the end of a search, its summary and its export.
#pragma once

#include <filesystem>
#include <functional>

#include "engine/cli/house.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/output.hpp"
#include "engine/search.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

Installation installation_of(const House&);
Surface surface_of(const House&);

// Twice of what is spent, as `resume` takes it: " --set budget.tokens=120000"; empty: nothing is.
// `models_too`: what they may use counts as spent, since it had no room for one more call.
std::string twice_what_is_spent(const Summary&, bool models_too = false);

// Returns the command's exit code.
int search_session(const House&, const std::filesystem::path& run_folder, const Output&, bool verbose,
                   const std::function<Expected<Outcome>(const Surface&, const Faces&)>& search);

}  // namespace cultivar
