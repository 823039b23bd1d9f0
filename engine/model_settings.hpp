// The `models` section of a configuration, read strictly and written out again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/yaml/strict_yaml.hpp"
#include "operators/llm/model_config.hpp"

namespace cultivar {

// In the order of the file. Relative paths start at `base`. `limited_in_usd`: the run or an
// operator has a budget in USD, so that every model that may cost something needs its prices. No value of an
// environment variable is read.
std::vector<ModelConfig> read_models(const YamlNode&, const std::filesystem::path& base, bool limited_in_usd);

// `{usd: 5, tokens: 1000000}`, either alone or both.
Cap read_cap(const YamlNode&);
std::string cap_yaml(const Cap&);

// Complete: read_models of it gives equal values. Empty for none.
std::string to_yaml(const std::vector<ModelConfig>&);

}  // namespace cultivar
