// SPDX-License-Identifier: Apache-2.0
// What the record says of one individual, as plain data and as words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "population/duel_result.hpp"

namespace cultivar {

std::string_view name_of(IndividualState);  // "proposed", "measured", "rejected"
nlohmann::json facts_of(const IndividualRow&);
// "Failed its confirmation at edge: wrong result on ...".
std::string words_of_failure(const Evaluation& confirmation);
// "+4.4 % (+3.9 to +5.0 %) side by side with #12", and the same as JSON with ratios instead of percent.
std::string duel_text(const DuelResult&);
nlohmann::json facts_of(const DuelResult&);
std::string descent_of(const Individual&);  // "tune of #3 on island 1: BLOCK_M 64 -> 128"
// How a child differs from its parent: "BLOCK_M 64 -> 128" or, when the source differs, the child's note.
std::string change_of(const Individual& parent, const Individual& child);
std::string configuration_text(const Configuration&);  // "BLOCK_M=64 LAYOUT=packed"

// The nearest ancestor that was profiled on the same workload; the profile is compared with it.
std::optional<Profile> profiled_ancestor(const Record&, IndividualId, const Profile&);

// The format of `show --json`: all that the record holds of it, with its source and its raw samples.
nlohmann::json individual_facts(const Record&, const IndividualRow&);
// A call to a language model, of `show --prompt --json`.
nlohmann::json exchange_facts(const ExchangeRow&, const ExchangeTexts&);

}  // namespace cultivar
