// SPDX-License-Identifier: Apache-2.0
// Which kernels were derived from which: the tree of first parents.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>

#include "engine/store/record.hpp"
#include "engine/store/standings.hpp"

namespace cultivar {

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
