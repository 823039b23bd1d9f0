#include "engine/asking_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/model_settings.hpp"
#include "evaluators/targets/binary_cache.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/registry.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class List>
std::string quoted_list(const List& list) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + quoted(std::string(item));
  return "[" + out + "]";
}

// Whoever is nobody's fallback is asked in his own right.
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
    node.fail("no operator is called '" + name + "'" + did_you_mean(name, known));
  OperatorShare share{name, 1.0, {}};
  const bool asks = asks_a_model(name);
  if (!node.is_map()) {
    share.weight = node.number(0.0);
  } else {
    YamlMap map = node.map();
    if (auto weight = map.optional("weight")) share.weight = weight->number(0.0);
    if (auto budget = map.optional("budget")) {
      if (!asks) budget->fail("'" + name + "' asks no language model, and spends nothing");
      share.budget = read_cap(*budget);
    }
    if (auto list = map.optional("models")) {
      if (!asks) list->fail("'" + name + "' asks no language model");
      std::vector<std::string> names;
      for (const ModelConfig& model : models) names.push_back(model.name);
      share.models = list->strings();
      if (share.models.empty()) list->fail("name at least one model, or leave this out: then all are asked");
      for (const std::string& model : share.models) {
        if (std::ranges::find(names, model) == names.end())
          list->fail("no model is called '" + model + "'" + did_you_mean(model, names));
        if (std::ranges::count(share.models, model) > 1) list->fail("'" + model + "' is named twice");
      }
    }
    map.finish();
  }
  if (asks && models.empty())
    node.fail("'" + name + "' asks a language model, and there is no `models` section that names one");
  if (asks && share.models.empty()) share.models = asked_by_default(models);
  return share;
}

void read_portfolio(const YamlNode& node, BanditOptions& options) {
  YamlMap map = node.map();
  if (auto n = map.optional("learn")) options.learn = n->boolean();
  if (auto n = map.optional("floor")) options.floor = n->number(0.0, 1.0);
  if (auto n = map.optional("memory")) options.memory = n->number(1.0, 1e9);
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
  if (auto n = map.optional("in_flight")) a.in_flight = static_cast<int>(n->integer(1, 1024));
  if (auto n = map.optional("rounds")) a.rounds = static_cast<int>(n->integer(1, 100));
  if (auto n = map.optional("resamples")) a.prompts.resamples = static_cast<int>(n->integer(0, 20));
  if (auto n = map.optional("prompt_tokens")) a.prompts.prompt_tokens = n->integer(1000, 10'000'000);
  if (auto n = map.optional("output_tokens")) a.prompts.output_tokens = n->integer(100, 10'000'000);
  if (auto n = map.optional("agent")) {
    YamlMap budget = n->map();
    AgentBudget& b = a.prompts.agent;
    if (auto steps = budget.optional("steps")) b.steps = static_cast<int>(steps->integer(2, 10'000));
    if (auto tokens = budget.optional("tokens")) b.tokens = tokens->integer(1000, 1'000'000'000);
    if (auto device = budget.optional("device_seconds")) b.device_seconds = device->number(1.0, 1e6);
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
      operators->fail("at least one operator needs a positive weight, as in {tune: 3, crossover_knobs: 1}");
  }
  c.portfolio.learn =
      std::ranges::any_of(c.operators, [](const OperatorShare& share) { return !share.models.empty(); });
  if (auto portfolio = root.optional("portfolio")) read_portfolio(*portfolio, c.portfolio);
  if (auto asking = root.optional("asking")) {
    if (c.models.empty()) asking->fail("there is no `models` section, so nobody is asked");
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
                  "  {}: {{weight: {}, models: {}{}}}\n", share.name, share.weight, quoted_list(share.models),
                  share.budget.usd || share.budget.tokens ? ", budget: " + cap_yaml(share.budget) : "");
  yaml += fmt::format("portfolio: {{learn: {}, floor: {}, memory: {}}}\n", c.portfolio.learn,
                      c.portfolio.floor, c.portfolio.memory);
  if (c.models.empty()) return yaml;
  const AskingConfig& a = c.asking;
  yaml += fmt::format(
      "asking:\n  in_flight: {}\n  rounds: {}\n  resamples: {}\n  prompt_tokens: {}\n  output_tokens: {}\n",
      a.in_flight, a.rounds, a.prompts.resamples, a.prompts.prompt_tokens, a.prompts.output_tokens);
  yaml += fmt::format("  agent: {{steps: {}, tokens: {}, device_seconds: {}}}\n", a.prompts.agent.steps,
                      a.prompts.agent.tokens, a.prompts.agent.device_seconds);
  if (!a.templates.empty()) yaml += "  templates: " + quoted(a.templates.string()) + "\n";
  if (!a.knowledge.empty()) yaml += "  knowledge: " + quoted_list(a.knowledge) + "\n";
  return yaml;
}

namespace {

std::string read_template(const fs::path& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none))
    throw InputError(file.string() +
                     ": this is no file, and a prompt is one: take it away, and ours is used");
  const auto text = read_file(file);
  if (!text && fs::file_size(file, none) != 0)
    throw InputError(file.string() + ": it cannot be read; see to its permissions");
  if (!text || text->find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(file.string() +
                     ": it is empty, and a model would be told nothing: write the prompt, or take the file "
                     "away, and ours is used");
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
