// SPDX-License-Identifier: Apache-2.0
// The parts of a run's population: what was bred on each island, and which individuals it keeps as parents.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "engine/history/present_population.hpp"
#include "engine/views/run_index.hpp"

namespace cultivar {

// Keeps the population between calls, so that each call reads what is new. Always with the same run; not
// thread-safe.
class IslandsView {
 public:
  // "islands": each with its counts and "elites"; "moves": the newest between them, of "moved". Of map_elites
  // also "axes", and "cells": what is alike, as a step of each axis, with its individual. "trouble": why the
  // parents are not known (the configuration or a decision of the record cannot be read). `index` is up to
  // date.
  nlohmann::json of(const Record&, const RunIndex& index);

 private:
  std::unique_ptr<PresentPopulation> population_;
};

}  // namespace cultivar
