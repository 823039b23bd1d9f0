// SPDX-License-Identifier: Apache-2.0
#include "engine/config/asking_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/config/model_settings.hpp"
#include "engine/config/settings.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/registry.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

Settings settings_of(BanditOptions& p) {
  return {{"learn", &p.learn}, {"floor", &p.floor, 0, 1}, {"memory", &p.memory, 1, 1e9}};
}

Settings settings_of(AskingConfig& a) {
  PromptOptions& p = a.prompts;
  return {{"in_flight", &a.in_flight, 1, 1024},
          {"rounds", &a.rounds, 1, 100},
          {"grace", Seconds{&a.grace_s, true}},
          {"resamples", &p.resamples, 0, 20},
          {"ideas", &p.ideas},
          {"families", &p.families},
          {"prompt_tokens", &p.prompt_tokens, 1000, 1e7},
          {"output_tokens", &p.output_tokens, 100, 1e7}};
}

Settings settings_of(ToolBudget& b) {
  return {{"steps", &b.steps, 2, 10'000},
          {"tokens", &b.tokens, 1000, 1e9},
          {"device_seconds", &b.device_seconds, 1, 1e6}};
}

// A model that is not a fallback of another one is asked directly.
std::vector<std::string> asked_by_default(const std::vector<ModelConfig>& models) {
  std::vector<std::string> names;
  for (const ModelConfig& model : models)
    if (std::ranges::none_of(models, [&](const ModelConfig& other) {
          return std::ranges::find(other.fallbacks, model.name) != other.fallbacks.end();
        }))
      names.push_back(model.name);
  if (names.empty())
    for (const ModelConfig& model : models) names.push_back(model.name);
  return names;
}

OperatorShare read_share(const std::string& name, const YamlNode& node,
                         const std::vector<ModelConfig>& models) {
  const auto known = operator_names();
  if (std::ranges::find(known, name) == known.end())
    node.fail("there is no operator '" + name + "'" + did_you_mean(name, known));
  OperatorShare share{name, 1.0, {}};
  const bool asks = operator_named(name).asks();
  if (!node.is_map()) {
    share.weight = node.number(0.0);
  } else {
    YamlMap map = node.map();
    if (auto weight = map.optional("weight")) share.weight = weight->number(0.0);
    if (auto budget = map.optional("budget")) {
      if (!asks) budget->fail("'" + name + "' asks no language model, so it has no budget");
      share.budget = read_cap(*budget);
    }
    if (auto list = map.optional("models")) {
      if (!asks) list->fail("'" + name + "' asks no language model");
      std::vector<std::string> names;
      for (const ModelConfig& model : models) names.push_back(model.name);
      share.models = list->strings();
      if (share.models.empty())
        list->fail("the list is empty: name at least one model, or omit this key to ask all of them");
      for (const std::string& model : share.models) {
        if (std::ranges::find(names, model) == names.end())
          list->fail("there is no model '" + model + "'" + did_you_mean(model, names));
        if (std::ranges::count(share.models, model) > 1) list->fail("'" + model + "' is named twice");
      }
    }
    map.finish();
  }
  if (asks && models.empty())
    node.fail("'" + name + "' asks a language model, but the configuration has no `models` section");
  if (asks && share.models.empty()) share.models = asked_by_default(models);
  return share;
}

void read_portfolio(const YamlNode& node, BanditOptions& options) {
  YamlMap map = node.map();
  read_settings(map, settings_of(options));
  map.finish();
}

void read_questions(const YamlNode& node, const fs::path& base, AskingConfig& a) {
  const auto folder = [&](const YamlNode& item) {
    const fs::path text = item.string();
    const fs::path path = fs::absolute(text.is_absolute() ? text : base / text).lexically_normal();
    std::error_code none;
    if (!fs::is_directory(path, none)) item.fail("no such folder: " + path.string());
    return path;
  };
  YamlMap map = node.map();
  read_settings(map, settings_of(a));
  if (auto n = map.optional("agent")) {
    YamlMap budget = n->map();
    read_settings(budget, settings_of(a.prompts.tools));
    budget.finish();
  }
  if (auto path = map.optional("templates")) {
    a.templates = folder(*path);
    try {
      (void)prompt_kit(a);
    } catch (const InputError& e) {
      path->fail(e.what());
    }
  }
  if (auto list = map.optional("knowledge"))
    for (const YamlNode& item : list->items()) {
      a.knowledge.push_back(folder(item));
      try {
        (void)load_notes({a.knowledge.back()});
      } catch (const InputError& e) {
        item.fail(e.what());
      }
    }
  map.finish();
}

}  // namespace

bool limits_operators_in_usd(YamlMap& root) {
  const auto operators = root.optional("operators");
  if (!operators || !operators->is_map()) return false;
  for (const auto& [name, node] : operators->map().entries())
    if (node.is_map()) {
      YamlMap share = node.map();
      if (const auto budget = share.optional("budget");
          budget && budget->is_map() && budget->map().has("usd"))
        return true;
    }
  return false;
}

void read_asking(YamlMap& root, const fs::path& base, Config& c) {
  c.operators = {{"tune", 3.0, {}}, {"crossover_knobs", 1.0, {}}};
  if (auto operators = root.optional("operators")) {
    c.operators.clear();
    for (const auto& [name, node] : operators->map().entries())
      if (OperatorShare share = read_share(name, node, c.models); share.weight > 0)
        c.operators.push_back(std::move(share));
    if (c.operators.empty())
      operators->fail(
          "at least one operator needs a positive weight, for example {tune: 3, crossover_knobs: 1}");
  }
  c.portfolio.learn =
      std::ranges::any_of(c.operators, [](const OperatorShare& share) { return !share.models.empty(); });
  if (auto portfolio = root.optional("portfolio")) read_portfolio(*portfolio, c.portfolio);
  if (auto asking = root.optional("asking")) {
    if (c.models.empty())
      asking->fail("the configuration has no `models` section, so no model is asked; remove this key");
    read_questions(*asking, base, c.asking);
  }
}

std::string asking_yaml(const Config& c) {
  std::string yaml = "operators:\n";
  for (const OperatorShare& share : c.operators)
    yaml +=
        share.models.empty()
            ? fmt::format("  {}: {}\n", share.name, share.weight)
            : fmt::format(
                  "  {}: {{weight: {}, models: {}{}}}\n", share.name, share.weight, json_text(share.models),
                  share.budget.usd || share.budget.tokens ? ", budget: " + cap_yaml(share.budget) : "");
  BanditOptions portfolio = c.portfolio;
  yaml += fmt::format("portfolio: {}\n", flow_text(settings_of(portfolio)));
  if (c.models.empty()) return yaml;
  AskingConfig a = c.asking;
  yaml += fmt::format("asking:\n{}  agent: {}\n", block_text(settings_of(a)),
                      flow_text(settings_of(a.prompts.tools)));
  if (!a.templates.empty()) yaml += "  templates: " + json_text(a.templates) + "\n";
  if (!a.knowledge.empty()) yaml += "  knowledge: " + json_text(a.knowledge) + "\n";
  return yaml;
}

namespace {

std::string read_template(const fs::path& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none))
    throw InputError(file.string() + ": not a file; remove it to use the built-in prompt");
  const auto text = read_file(file);
  if (!text) throw InputError(file.string() + ": cannot be read; check its permissions");
  if (text->find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(file.string() +
                     ": the prompt is empty; write it, or remove the file to use the built-in prompt");
  return *text;
}

}  // namespace

PromptKit prompt_kit(const AskingConfig& asking) {
  std::map<std::string, std::string> texts;
  std::error_code none;
  if (!asking.templates.empty())
    for (const auto& entry : fs::directory_iterator(asking.templates, none))
      if (entry.path().extension() == ".md" && entry.path().filename() != "README.md")
        texts[entry.path().filename().string()] = read_template(entry.path());
  return PromptKit(asking.prompts, texts, known_notes(asking.knowledge));
}

}  // namespace cultivar
