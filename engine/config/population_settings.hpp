// SPDX-License-Identifier: Apache-2.0
// The section `population` of a configuration: the strategy and its keys.
#pragma once

#include <string>

#include "evaluators/target/traits.hpp"
#include "evaluators/yaml/strict_yaml.hpp"
#include "population/strategy.hpp"

namespace cultivar {

PopulationOptions population_defaults(Target, int rules);
// What the section leaves out is as in `options`.
PopulationOptions read_population(const YamlNode& section, PopulationOptions options);
// The section with every value: read_population of it gives equal options.
std::string population_yaml(PopulationOptions);

// Of a whole configuration as a record has it, without its task, files and devices. Throws InputError.
PopulationOptions recorded_population(const std::string& yaml);

}  // namespace cultivar
