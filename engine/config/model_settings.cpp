// SPDX-License-Identifier: Apache-2.0
#include "engine/config/model_settings.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <set>

#include "engine/config/config.hpp"
#include "engine/config/settings.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

Settings settings_of(ChatTimeouts& t) {
  return {{"connect", Seconds{&t.connect_s}},
          {"first_byte", Seconds{&t.first_byte_s}},
          {"idle", Seconds{&t.idle_s}},
          {"total", Seconds{&t.total_s}}};
}

Settings settings_of(RateLimit& l) {
  return {{"requests_per_minute", &l.requests, 1e-3, 1e9},
          {"input_tokens_per_minute", &l.input_tokens, 1, 1e12},
          {"output_tokens_per_minute", &l.output_tokens, 1, 1e12},
          {"in_flight", &l.in_flight, 1, 1024}};
}

Settings settings_of(RetryRule& r) {
  return {{"attempts", &r.attempts, 1, 100},
          {"first_wait", Seconds{&r.first_wait_s}},
          {"longest_wait", Seconds{&r.longest_wait_s}},
          {"patience", Seconds{&r.patience_s}},
          {"fallback_after", Seconds{&r.fallback_after_s}},
          {"breaker_failures", &r.breaker_failures, 1, 1000},
          {"breaker_rest", Seconds{&r.breaker_rest_s}}};
}

json json_of(const YamlNode& node) {
  if (node.is_map()) {
    json object = json::object();
    for (const auto& [key, value] : node.map().entries(Nulls::allowed)) object[key] = json_of(value);
    return object;
  }
  if (node.is_sequence()) {
    json list = json::array();
    for (const YamlNode& item : node.items()) list.push_back(json_of(item));
    return list;
  }
  if (node.is_null()) return nullptr;
  const std::string text = node.string();
  if (node.is_quoted()) return text;
  if (text == "true" || text == "false") return text == "true";
  std::int64_t whole = 0;
  const char *begin = text.data(), *end = begin + text.size();
  if (const auto [stop, code] = std::from_chars(begin, end, whole); code == std::errc() && stop == end)
    return whole;
  double number = 0.0;
  if (const auto [stop, code] = std::from_chars(begin, end, number); code == std::errc() && stop == end)
    return number;
  return text;
}

// A node that may hold a key by mistake must never be quoted in a message.
std::string variable_name(const YamlNode& node) {
  const std::string text = node.string();
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (text.size() > 100 || !std::ranges::all_of(text, fits) || (text[0] >= '0' && text[0] <= '9'))
    node.fail(
        "this must be the name of an environment variable, for example ANTHROPIC_API_KEY; a configuration "
        "must not contain the key itself");
  return text;
}

std::string read_base_url(const YamlNode& node) {
  std::string url = node.string();
  while (url.ends_with('/')) url.pop_back();
  if (url.find('@') != std::string::npos)
    node.fail(
        "a base_url must not contain a user or password: name the key's environment variable with "
        "api_key_env");
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    node.fail("'" + url + "' is not a URL; write for example https://api.openai.com/v1");
  if (url.find('?') != std::string::npos || url.find('#') != std::string::npos)
    node.fail("a base_url must not contain ? or #, because a path is appended to it");
  if (looks_like_a_secret(url))
    node.fail(
        "part of the URL looks like a key, and the configuration is stored in the record: put the key into "
        "an environment variable and name it with api_key_env (a gateway that expects the key in the path "
        "needs a proxy)");
  for (const char* path : {"/chat/completions", "/responses", "/messages"})
    if (url.ends_with(path)) node.fail(fmt::format("remove {}: it is appended to base_url", path));
  return url;
}

// True for https, and for a server on this machine.
bool keeps_a_key(const std::string& url) {
  if (!url.starts_with("http://")) return true;
  const std::string host = url.substr(7, url.find_first_of(":/", url[7] == '[' ? url.find(']') : 7) - 7);
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

// `{prompt_fle}` in the arguments of a program: an unknown placeholder is an error.
std::string unknown_placeholder(const std::vector<std::string>& words,
                                const std::vector<std::string>& known) {
  for (const std::string& word : words)
    for (std::size_t at = word.find('{'); at != std::string::npos; at = word.find('{', at + 1)) {
      const std::size_t end = word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + 1);
      if (end == at + 1 || end == std::string::npos || word[end] != '}') continue;
      const std::string name = word.substr(at + 1, end - at - 1);
      if (std::ranges::find(known, name) == known.end()) return name;
    }
  return {};
}

void read_http(YamlMap& map, const ProviderFacts& facts, ModelConfig& m) {
  m.model = map.require("model").string();
  m.base_url = facts.base_url;
  if (auto url = map.optional("base_url")) m.base_url = read_base_url(*url);
  if (map.has("api_key_env") && !keeps_a_key(m.base_url))
    map.require("api_key_env")
        .fail(
            "the key would be sent unencrypted: base_url must start with https:// (http:// is only for "
            "localhost)");
  // A base_url of another server must not get the key of the provider.
  if (m.base_url == facts.base_url) m.api_key_env = facts.api_key_env;
  if (auto name = map.optional("api_key_env")) m.api_key_env = variable_name(*name);
  if (auto extra = map.optional("extra")) {
    if (!extra->is_map()) extra->fail("this must be a map of fields, for example {top_k: 40}");
    m.extra = json_of(*extra);
    if (const auto where = secret_in(m.extra))
      extra->fail(*where +
                  " looks like a key, and the configuration is stored in the record: put it into an "
                  "environment variable and name it with api_key_env");
    for (const char* ours : {"messages", "input", "stream", "system"})
      if (m.extra.contains(ours) && !m.extra[ours].is_null())
        extra->fail(fmt::format("{} is set by Cultivar in every request and cannot be set here", ours));
  }
  if (auto rename = map.optional("rename"))
    for (const auto& [ours, theirs] : rename->map().entries()) m.rename[ours] = theirs.string();
}

void read_own(YamlMap& map, const fs::path& base, ModelConfig& m) {
  const auto path_of = [&](const YamlNode& node) {
    const fs::path path = node.string();
    if (m.provider == "mailbox" && *path.begin() == kRunPlaceholder) return path.lexically_normal().string();
    return fs::absolute(path.is_absolute() ? path : base / path).lexically_normal().string();
  };
  if (m.provider == "command") {
    const YamlNode node = map.require("command");
    m.command = node.strings();
    if (m.command.empty())
      node.fail("the list is empty; name a program and its arguments, for example [claude, -p]");
    const std::vector<std::string> placeholders{"prompt_file", "answer_file", "folder"};
    if (const std::string odd = unknown_placeholder(m.command, placeholders); !odd.empty())
      node.fail("there is no placeholder {" + odd + "}" + did_you_mean(odd, placeholders));
    if (const auto where = secret_in(m.command))
      node.fail(*where +
                " looks like a key, and the configuration is stored in the record: put it into an "
                "environment variable, which the program inherits");
    if (auto model = map.optional("model")) m.model = model->string();
    if (auto answer = map.optional("answer")) m.answer = answer->one_of({"text", "file", "claude_json"});
    const auto names = [&](const char* what) {
      return std::ranges::any_of(
          m.command, [&](const std::string& word) { return word.find(what) != std::string::npos; });
    };
    if (m.answer == "file" && !names("{answer_file}"))
      node.fail(
          "`answer: file` needs the placeholder {answer_file} in the arguments, where the program writes its "
          "answer");
    if (m.answer != "file" && names("{answer_file}"))
      node.fail("{answer_file} needs `answer: file`; without it the file is not read");
  } else if (m.provider == "mailbox") {
    // The default is not relative to this file, which may be in an installation that must not be written to.
    const auto named = map.optional("folder");
    m.folder = named ? path_of(*named) : fs::absolute(fs::path("runs") / (m.name + "-letters")).string();
    // The folder is created when it is needed; its nearest existing parent must be a folder.
    std::error_code none;
    fs::path there = m.folder;
    if (*there.begin() == kRunPlaceholder) return;  // it moves with the run
    while (!fs::exists(fs::symlink_status(there, none)) && there.has_relative_path())
      there = there.parent_path();
    if (!fs::is_directory(there, none))
      map.require(named ? "folder" : "provider")
          .fail(fmt::format(
              "{} is not a folder, but a mailbox needs one: name another path, or remove the file",
              there.string()));
  } else {
    const YamlNode node = map.require("file");
    m.file = path_of(node);
    std::error_code none;
    if (!fs::is_regular_file(m.file, none)) node.fail("no such file: " + m.file);
    if (auto match = map.optional("match")) m.by_call = match->one_of({"request", "call"}) == "call";
  }
}

template <class Section>
void read_section(YamlMap& parent, const char* key, Section& section) {
  if (const auto node = parent.optional(key)) {
    YamlMap map = node->map();
    read_settings(map, settings_of(section));
    map.finish();
  }
}

void read_prices(const YamlNode& node, ModelConfig& m) {
  YamlMap map = node.map();
  m.prices.input = map.require("input").number(0.0, 1e6);
  m.prices.output = map.require("output").number(0.0, 1e6);
  // Defaults are upper bounds of the real price. Anthropic charges extra for writing to its cache.
  m.prices.cached = m.prices.input;
  m.prices.cache_written = m.provider == "anthropic" ? 1.25 * m.prices.input : m.prices.input;
  if (auto n = map.optional("cached")) m.prices.cached = n->number(0.0, 1e6);
  if (auto n = map.optional("cache_written")) m.prices.cache_written = n->number(0.0, 1e6);
  map.finish();
}

}  // namespace

Cap read_cap(const YamlNode& node) {
  YamlMap map = node.map();
  Cap cap;
  if (auto n = map.optional("usd")) cap.usd = n->number(0.0, 1e9);
  if (auto n = map.optional("tokens")) cap.tokens = n->integer(0);
  map.finish();
  return cap;
}

std::string cap_yaml(const Cap& cap) {
  std::string usd = cap.usd ? fmt::format("usd: {}", *cap.usd) : "";
  std::string tokens = cap.tokens ? fmt::format("tokens: {}", *cap.tokens) : "";
  return "{" + usd + (usd.empty() || tokens.empty() ? "" : ", ") + tokens + "}";
}

namespace {

ModelConfig read_model(const std::string& name, const YamlNode& node, const fs::path& base,
                       bool limited_in_usd) {
  YamlMap map = node.map();
  ModelConfig m;
  m.name = name;
  std::vector<std::string> providers;
  for (const ProviderFacts& facts : known_providers()) providers.emplace_back(facts.name);
  m.provider = map.require("provider").one_of(providers);
  const ProviderFacts& facts = *provider_named(m.provider);
  if (map.has("api_key"))
    map.require("api_key").fail(
        "a configuration must not contain a key: put it into an environment variable and name "
        "it with api_key_env");
  if (m.provider == "mailbox") m.timeouts.total_s = 24 * 3600.0;
  if (m.provider == "command") {  // programs print nothing until they are done
    m.timeouts.first_byte_s = m.timeouts.idle_s = 1200.0;
    m.timeouts.total_s = 1800.0;
    m.limits.in_flight = 4;
  }
  if (facts.over_http)
    read_http(map, facts, m);
  else
    read_own(map, base, m);

  if (auto n = map.optional("max_output_tokens")) m.max_output_tokens = n->integer(1, 10'000'000);
  if (auto effort = map.optional("effort")) {
    const std::string word = effort->one_of({"low", "medium", "high"});
    m.effort = word == "low" ? Effort::low : word == "medium" ? Effort::medium : Effort::high;
  }
  if (auto n = map.optional("temperature")) m.temperature = n->number(0.0, 2.0);
  read_section(map, "timeouts", m.timeouts);
  read_section(map, "limits", m.limits);
  if (auto budget = map.optional("budget")) m.cap = read_cap(*budget);
  const bool priced = map.has("prices");
  if (priced) read_prices(map.require("prices"), m);
  if (auto list = map.optional("fallbacks")) m.fallbacks = list->strings();
  read_section(map, "retry", m.retry);
  if (m.retry.longest_wait_s < m.retry.first_wait_s)
    map.require("retry").fail("longest_wait must not be below first_wait");
  map.finish();
  if ((limited_in_usd || m.cap.usd) && facts.over_http && !priced)
    node.fail(
        "a budget in USD needs this model's prices: add prices: {input: ..., output: ...} in USD per "
        "million tokens (0 for your own server)");
  return m;
}

std::string yaml_of(const json& value) {
  if (value.is_object()) {
    std::string text;
    for (const auto& [key, item] : value.items())
      text += (text.empty() ? "" : ", ") + json(key).dump() + ": " + yaml_of(item);
    return "{" + text + "}";
  }
  if (value.is_array()) {
    std::string text;
    for (const json& item : value) text += (text.empty() ? "" : ", ") + yaml_of(item);
    return "[" + text + "]";
  }
  return value.dump();
}

}  // namespace

std::vector<ModelConfig> read_models(const YamlNode& node, const fs::path& base, bool limited_in_usd) {
  std::vector<ModelConfig> models;
  std::vector<std::string> names;
  const auto entries = node.map().entries();
  for (const auto& [name, value] : entries) {
    models.push_back(read_model(name, value, base, limited_in_usd));
    names.push_back(name);
  }
  if (models.empty()) node.fail("the section is empty: name at least one model, or remove the section");
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::set<std::string> seen{models[i].name};
    for (const std::string& name : models[i].fallbacks) {
      if (std::ranges::find(names, name) == names.end())
        entries[i].second.fail("fallbacks: there is no model '" + name + "'" + did_you_mean(name, names));
      if (!seen.insert(name).second)
        entries[i].second.fail("fallbacks: '" + name + "' would be asked twice; remove one of its entries");
    }
  }
  return models;
}

std::string to_yaml(const std::vector<ModelConfig>& models) {
  if (models.empty()) return {};
  std::string yaml = "models:\n";
  for (ModelConfig m : models) {  // a copy: settings may change what they are of
    const auto line = [&](const std::string& text) { yaml += "    " + text + "\n"; };
    yaml += "  " + json_text(m.name) + ":\n";
    line("provider: " + m.provider);
    if (!m.base_url.empty()) line("base_url: " + json_text(m.base_url));
    if (!m.model.empty()) line("model: " + json_text(m.model));
    if (!m.api_key_env.empty()) line("api_key_env: " + m.api_key_env);
    if (!m.extra.empty()) line("extra: " + yaml_of(m.extra));
    if (!m.rename.empty()) line("rename: " + yaml_of(m.rename));
    if (!m.command.empty()) line("command: " + yaml_of(m.command));
    if (m.provider == "command") line("answer: " + m.answer);
    if (!m.folder.empty()) line("folder: " + json_text(m.folder));
    if (!m.file.empty()) line("file: " + json_text(m.file));
    if (m.by_call) line("match: call");
    if (m.max_output_tokens > 0) line(fmt::format("max_output_tokens: {}", m.max_output_tokens));
    if (m.effort != Effort::unset) line(fmt::format("effort: {}", name_of(m.effort)));
    if (m.temperature) line(fmt::format("temperature: {}", *m.temperature));
    line("timeouts: " + flow_text(settings_of(m.timeouts)));
    Settings limits = settings_of(m.limits);
    std::erase_if(limits, [](const Setting& limit) {  // none: it is left out
      const auto* const rate = std::get_if<double*>(&limit.value);
      return rate && **rate == 0.0;
    });
    line("limits: " + flow_text(limits));
    if (m.cap.usd || m.cap.tokens) line("budget: " + cap_yaml(m.cap));
    line(fmt::format("prices: {{input: {}, cached: {}, cache_written: {}, output: {}}}", m.prices.input,
                     m.prices.cached, m.prices.cache_written, m.prices.output));
    if (!m.fallbacks.empty()) line("fallbacks: " + yaml_of(m.fallbacks));
    line("retry: " + flow_text(settings_of(m.retry)));
  }
  return yaml;
}

}  // namespace cultivar
