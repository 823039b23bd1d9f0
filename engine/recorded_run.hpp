// What a search, a resumed one and a replay all take from the record.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/run_folder.hpp"
#include "engine/search.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The facts of the first device, on which every decision rests.
Facts facts_in(const nlohmann::json& environment);

// Paths of the recorded configuration are relative to the run folder, which may have been moved since.
Config recorded_config(const std::string& yaml, const RunFolder&, const std::vector<std::string>& overrides,
                       const Surface&);

}  // namespace cultivar
