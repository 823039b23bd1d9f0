// Who makes variants, and how language models are asked: the sections `operators`, `portfolio` and `asking`
// of a configuration.
#pragma once

#include <filesystem>
#include <string>

#include "engine/config.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// Does an operator have a budget in USD? Then every model needs its prices.
bool limits_operators_in_usd(YamlMap& root);
// `root` is the configuration; its models have been read.
void read_asking(YamlMap& root, const std::filesystem::path& base, Config&);
// Complete: read_asking of it gives equal values.
std::string asking_yaml(const Config&);

// The templates that replace ours, by file name. Throws InputError for a file that is no prompt of ours.
PromptKit prompt_kit(const AskingConfig&);

}  // namespace cultivar
