// SPDX-License-Identifier: Apache-2.0
// Which operators propose variants, and how language models are asked: the sections `operators`, `portfolio`
// and `asking` of a configuration.
#pragma once

#include <filesystem>
#include <string>

#include "engine/config/config.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// Whether any operator has a budget in USD; then every model needs prices.
bool limits_operators_in_usd(YamlMap& root);
// `root` is the configuration; call after its models have been read.
void read_asking(YamlMap& root, const std::filesystem::path& base, Config&);
// Writes every value: read_asking of the result gives equal settings.
std::string asking_yaml(const Config&);

// The templates that replace built-in ones, by file name. Throws InputError for a name that is not a built-in
// prompt.
PromptKit prompt_kit(const AskingConfig&);

}  // namespace cultivar
