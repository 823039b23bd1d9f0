// SPDX-License-Identifier: Apache-2.0
// What the record says of one individual and of its lineage, as plain data and as words.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "engine/store/standings.hpp"
#include "population/individual.hpp"

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

// Which kernels were derived from which: the tree of first parents.
struct LineageTree {
  std::map<IndividualId, IndividualRow> rows;
  std::map<IndividualId, std::set<IndividualId>> children;
  std::set<IndividualId> roots;
  struct Settings {
    std::int64_t count = 0;
    IndividualId best = 0;
    double fitness = 0.0;
  };
  std::map<IndividualId, Settings> settings;  // that are counted, by the kernel that they were derived from
};

std::set<IndividualId> promoted_in(const Record&);  // all that were the best at some time

// All sources of a run. Settings of a source that led to nothing else are only counted. Throws InputError if
// the record names a parent that is not older than its child.
LineageTree whole_lineage(const Record&, const std::set<IndividualId>& promoted, Standings&);
LineageTree lineage_of(const Record&, IndividualId);  // its ancestors and its children

// The format of `lineage --json`: each node as facts_of(), with its fitness, and whether it was promoted.
nlohmann::json lineage_facts(const LineageTree&, const std::set<IndividualId>& promoted, Standings&);

}  // namespace cultivar
