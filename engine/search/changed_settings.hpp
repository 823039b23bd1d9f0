// SPDX-License-Identifier: Apache-2.0
// Settings that `cultivar resume --set` changes: KEY=VALUE, the key with the sections that it is in.
#pragma once

#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

// All that require_changeable() permits, for a help text.
std::string changeable_settings();

// Whether KEY=VALUE is a setting of the evaluation that a resumed search can change.
bool changes_evaluation(const std::string& override);

// Throws InputError for a setting that was part of what is decided already: such a search is another one.
void require_changeable(const std::vector<std::string>& overrides);

// Throws InputError for a budget that is used up already, which would end the search at once and stay in the
// record. `config`: with the overrides.
void require_larger_budgets(const Config& config, const std::vector<std::string>& overrides,
                            const Summary& so_far);

// What the record says about settings of the evaluation that are other ones from here on; empty: none.
std::string changed_settings(const std::vector<std::string>& overrides);

}  // namespace cultivar
