// SPDX-License-Identifier: Apache-2.0
// Reads the `models` section of a configuration strictly, and writes it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/yaml/strict_yaml.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

// At the beginning of a mailbox's `folder`: the run's folder, so that its requests move with the run.
inline constexpr std::string_view kRunPlaceholder = "{run}";

// In the order of the file. Relative paths start at `base`. `limited_in_usd`: the run or an operator has a
// budget in USD, so every model that may cost something needs prices. Environment variables are not read.
std::vector<ModelConfig> read_models(const YamlNode&, const std::filesystem::path& base, bool limited_in_usd);

// `{usd: 5, tokens: 1000000}`; either or both.
Cap read_cap(const YamlNode&);
std::string cap_yaml(const Cap&);

// Writes every value: read_models of the result gives equal models. Empty if there is none.
std::string to_yaml(const std::vector<ModelConfig>&);

}  // namespace cultivar
