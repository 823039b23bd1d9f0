#include "engine/model_settings.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <set>

#include "engine/config.hpp"
#include "engine/secret_words.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kEfforts[] = {"", "low", "medium", "high"};

void read_duration(YamlMap& map, const char* key, double& into) {
  const auto node = map.optional(key);
  if (!node) return;
  const auto seconds = duration_seconds(node->string());
  if (!seconds || !(*seconds > 0))
    node->fail("'" + node->string() + "' is not a duration (write 90s, 3m, 2h, 7d)");
  into = *seconds;
}

json json_of(const YamlNode& node) {
  if (node.is_map()) {
    json object = json::object();
    for (const auto& [key, value] : node.map().entries()) object[key] = json_of(value);
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

// The text of a node that may hold a key by mistake never gets into a message.
std::string variable_name(const YamlNode& node) {
  const std::string text = node.string();
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (text.size() > 100 || !std::ranges::all_of(text, fits) || (text[0] >= '0' && text[0] <= '9'))
    node.fail(
        "this must be the name of an environment variable, as in ANTHROPIC_API_KEY; the key itself never "
        "stands "
        "in a configuration");
  return text;
}

std::string read_base_url(const YamlNode& node) {
  std::string url = node.string();
  while (url.ends_with('/')) url.pop_back();
  if (url.find('@') != std::string::npos)
    node.fail("no user and no password in an address: name the key's environment variable with api_key_env");
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    node.fail("'" + url + "' is no address; write it as in https://api.openai.com/v1");
  if (url.find('?') != std::string::npos || url.find('#') != std::string::npos)
    node.fail("an address without ? and #: what is asked for is put behind it");
  if (looks_like_a_secret(url))
    node.fail(
        "part of the address looks like a key, and what stands in a configuration gets into the record: put "
        "it into "
        "an environment variable and name that with api_key_env (a gateway that wants it in the path needs a "
        "proxy "
        "of your own)");
  for (const char* path : {"/chat/completions", "/responses", "/messages"})
    if (url.ends_with(path)) node.fail(fmt::format("leave out {}: base_url ends before it", path));
  return url;
}

// https, or a server on this machine.
bool keeps_a_key(const std::string& url) {
  if (!url.starts_with("http://")) return true;
  const std::string host = url.substr(7, url.find_first_of(":/", url[7] == '[' ? url.find(']') : 7) - 7);
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

// `{prompt_fle}` among the arguments of a program: nobody would fill it in.
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
            "a key would go over the network for all to read: base_url must begin with https:// (http:// is "
            "for "
            "localhost)");
  // Somebody else's server does not get the key of the provider's own.
  if (m.base_url == facts.base_url) m.api_key_env = facts.api_key_env;
  if (auto name = map.optional("api_key_env")) m.api_key_env = variable_name(*name);
  if (auto extra = map.optional("extra")) {
    if (!extra->is_map()) extra->fail("a map of fields, as in {top_k: 40}");
    m.extra = json_of(*extra);
    if (const auto where = secret_in(m.extra))
      extra->fail(
          *where +
          " looks like a key, and what stands in a configuration gets into the record: put it into an "
          "environment variable and name that with api_key_env");
    for (const char* ours : {"messages", "input", "stream", "system"})
      if (m.extra.contains(ours))
        extra->fail(fmt::format("{} belongs to every request and cannot be set here", ours));
  }
}

void read_own(YamlMap& map, const fs::path& base, ModelConfig& m) {
  const auto path_of = [&](const char* key) {
    const fs::path path = map.require(key).string();
    return fs::absolute(path.is_absolute() ? path : base / path).lexically_normal().string();
  };
  if (m.provider == "command") {
    const YamlNode node = map.require("command");
    m.command = node.strings();
    if (m.command.empty()) node.fail("a program and its arguments, as in [claude, -p]");
    const std::vector<std::string> placeholders{"prompt_file", "answer_file", "folder"};
    if (const std::string odd = unknown_placeholder(m.command, placeholders); !odd.empty())
      node.fail("nothing is put in place of {" + odd + "}" + did_you_mean(odd, placeholders));
    if (const auto where = secret_in(m.command))
      node.fail(*where +
                " looks like a key, and what stands in a configuration gets into the record: put it into an "
                "environment variable, which the program inherits");
    if (auto model = map.optional("model")) m.model = model->string();
    if (auto answer = map.optional("answer")) m.answer = answer->one_of({"text", "file", "claude_json"});
    const auto names = [&](const char* what) {
      return std::ranges::any_of(
          m.command, [&](const std::string& word) { return word.find(what) != std::string::npos; });
    };
    if (m.answer == "file" && !names("{answer_file}"))
      node.fail(
          "with answer: file the program must be told where to write: put {answer_file} among the arguments");
    if (m.answer != "file" && names("{answer_file}"))
      node.fail("{answer_file} is only read with answer: file");
  } else if (m.provider == "mailbox") {
    m.folder = path_of("folder");
    // It is made when it is needed, below what is there.
    std::error_code none;
    fs::path there = m.folder;
    while (!fs::exists(fs::symlink_status(there, none)) && there.has_relative_path())
      there = there.parent_path();
    if (!fs::is_directory(there, none))
      map.require("folder").fail(fmt::format(
          "{} is no folder, and letters need one: name another place, or take it away", there.string()));
  } else {
    const YamlNode node = map.require("file");
    m.file = path_of("file");
    std::error_code none;
    if (!fs::is_regular_file(m.file, none)) node.fail("no such file: " + m.file);
    if (auto match = map.optional("match")) m.by_call = match->one_of({"request", "call"}) == "call";
  }
}

void read_limits(const YamlNode& node, RateLimit& limits) {
  YamlMap map = node.map();
  if (auto n = map.optional("requests_per_minute")) limits.requests = n->number(1e-3, 1e9);
  if (auto n = map.optional("input_tokens_per_minute")) limits.input_tokens = n->number(1.0, 1e12);
  if (auto n = map.optional("output_tokens_per_minute")) limits.output_tokens = n->number(1.0, 1e12);
  if (auto n = map.optional("in_flight")) limits.in_flight = static_cast<int>(n->integer(1, 1024));
  map.finish();
}

void read_retry(const YamlNode& node, RetryRule& rule) {
  YamlMap map = node.map();
  if (auto n = map.optional("attempts")) rule.attempts = static_cast<int>(n->integer(1, 100));
  read_duration(map, "first_wait", rule.first_wait_s);
  read_duration(map, "longest_wait", rule.longest_wait_s);
  read_duration(map, "patience", rule.patience_s);
  read_duration(map, "fallback_after", rule.fallback_after_s);
  if (auto n = map.optional("breaker_failures"))
    rule.breaker_failures = static_cast<int>(n->integer(1, 1000));
  read_duration(map, "breaker_rest", rule.breaker_rest_s);
  map.finish();
  if (rule.longest_wait_s < rule.first_wait_s) node.fail("longest_wait must not be below first_wait");
}

void read_prices(const YamlNode& node, ModelConfig& m) {
  YamlMap map = node.map();
  m.prices.input = map.require("input").number(0.0, 1e6);
  m.prices.output = map.require("output").number(0.0, 1e6);
  // Without a word on them: what is not cheaper than it may be. Anthropic writes to its cache at a surcharge.
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
        "a key never stands in a configuration: put it into an environment variable and name "
        "that with api_key_env");
  if (m.provider == "mailbox") m.timeouts.total_s = 24 * 3600.0;
  if (m.provider == "command") {  // they say nothing until they are done
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
  if (auto timeouts = map.optional("timeouts")) {
    YamlMap times = timeouts->map();
    read_duration(times, "connect", m.timeouts.connect_s);
    read_duration(times, "first_byte", m.timeouts.first_byte_s);
    read_duration(times, "idle", m.timeouts.idle_s);
    read_duration(times, "total", m.timeouts.total_s);
    times.finish();
  }
  if (auto limits = map.optional("limits")) read_limits(*limits, m.limits);
  if (auto budget = map.optional("budget")) m.cap = read_cap(*budget);
  const bool priced = map.has("prices");
  if (priced) read_prices(map.require("prices"), m);
  if (auto list = map.optional("fallbacks")) m.fallbacks = list->strings();
  if (auto retry = map.optional("retry")) read_retry(*retry, m.retry);
  map.finish();
  if ((limited_in_usd || m.cap.usd) && facts.over_http && !priced)
    node.fail(
        "a budget in USD needs to know what this model costs: add prices: {input: ..., output: ...} in USD "
        "per "
        "million tokens (0 for a server of your own)");
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

std::string in_quotes(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
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
  if (models.empty()) node.fail("name at least one model, or leave the section out");
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::set<std::string> seen{models[i].name};
    for (const std::string& name : models[i].fallbacks) {
      if (std::ranges::find(names, name) == names.end())
        entries[i].second.fail("fallbacks: no model is called '" + name + "'" + did_you_mean(name, names));
      if (!seen.insert(name).second) entries[i].second.fail("fallbacks: '" + name + "' would be asked twice");
    }
  }
  return models;
}

std::string to_yaml(const std::vector<ModelConfig>& models) {
  if (models.empty()) return {};
  std::string yaml = "models:\n";
  for (const ModelConfig& m : models) {
    const auto line = [&](const std::string& text) { yaml += "    " + text + "\n"; };
    yaml += "  " + in_quotes(m.name) + ":\n";
    line("provider: " + m.provider);
    if (!m.base_url.empty()) line("base_url: " + in_quotes(m.base_url));
    if (!m.model.empty()) line("model: " + in_quotes(m.model));
    if (!m.api_key_env.empty()) line("api_key_env: " + m.api_key_env);
    if (!m.extra.empty()) line("extra: " + yaml_of(m.extra));
    if (!m.command.empty()) line("command: " + yaml_of(m.command));
    if (m.provider == "command") line("answer: " + m.answer);
    if (!m.folder.empty()) line("folder: " + in_quotes(m.folder));
    if (!m.file.empty()) line("file: " + in_quotes(m.file));
    if (m.by_call) line("match: call");
    if (m.max_output_tokens > 0) line(fmt::format("max_output_tokens: {}", m.max_output_tokens));
    if (m.effort != Effort::unset)
      line(fmt::format("effort: {}", kEfforts[static_cast<std::size_t>(m.effort)]));
    if (m.temperature) line(fmt::format("temperature: {}", *m.temperature));
    const ChatTimeouts& t = m.timeouts;
    line(fmt::format("timeouts: {{connect: {}s, first_byte: {}s, idle: {}s, total: {}s}}", t.connect_s,
                     t.first_byte_s, t.idle_s, t.total_s));
    std::string limits = fmt::format("in_flight: {}", m.limits.in_flight);
    if (m.limits.requests > 0) limits += fmt::format(", requests_per_minute: {}", m.limits.requests);
    if (m.limits.input_tokens > 0)
      limits += fmt::format(", input_tokens_per_minute: {}", m.limits.input_tokens);
    if (m.limits.output_tokens > 0)
      limits += fmt::format(", output_tokens_per_minute: {}", m.limits.output_tokens);
    line("limits: {" + limits + "}");
    if (m.cap.usd || m.cap.tokens) line("budget: " + cap_yaml(m.cap));
    line(fmt::format("prices: {{input: {}, cached: {}, cache_written: {}, output: {}}}", m.prices.input,
                     m.prices.cached, m.prices.cache_written, m.prices.output));
    if (!m.fallbacks.empty()) line("fallbacks: " + yaml_of(m.fallbacks));
    const RetryRule& r = m.retry;
    line(fmt::format(
        "retry: {{attempts: {}, first_wait: {}s, longest_wait: {}s, patience: {}s, fallback_after: {}s, "
        "breaker_failures: {}, breaker_rest: {}s}}",
        r.attempts, r.first_wait_s, r.longest_wait_s, r.patience_s, r.fallback_after_s, r.breaker_failures,
        r.breaker_rest_s));
  }
  return yaml;
}

}  // namespace cultivar
