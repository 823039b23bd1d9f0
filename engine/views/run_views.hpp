// SPDX-License-Identifier: Apache-2.0
// A run as its dashboard and its page show it: each function gives one view as plain data. Times are in
// seconds, those named `elapsed_s` of search time, others since 1970. `index` is up to date with the record.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/store/record.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

// What each list of a view says of an individual.
nlohmann::json row_facts(const RunIndex&, const KernelFacts&);

// The summary of `status --json`, the promotions with their bounds, the age of the best, the contenders'
// lines; when the search began and when it last recorded anything.
nlohmann::json state_view(const Record&, const RunIndex&);
// Every judged individual, those that would overlap in a picture of 300 by 160 merged; the best so far; the
// line to the best. `by_count`: over the number of evaluations, otherwise over search time.
nlohmann::json series_view(const RunIndex&, bool by_count);
// The ancestors of an individual (0: of the best), each with what it changed and its gain over its parent.
nlohmann::json path_view(const Record&, const RunIndex&, IndividualId);
// The children of an individual (0: those without a parent), `count` from the `from`th on, the fastest first.
nlohmann::json children_view(const Record&, const RunIndex&, IndividualId, std::size_t from,
                             std::size_t count);
nlohmann::json failures_view(
    const RunIndex&);  // by stage and reason, with examples; failed confirmations too
nlohmann::json operators_view(const Record&, const RunIndex&);
nlohmann::json devices_view(const Record&, const RunIndex&);
nlohmann::json budgets_view(const Record&, const RunIndex&);
nlohmann::json interventions_view(const Record&);
nlohmann::json events_view(const Record&, std::int64_t after, std::int64_t count);

}  // namespace cultivar
