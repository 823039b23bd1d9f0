// SPDX-License-Identifier: Apache-2.0
#include "engine/config/notify_settings.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "engine/config/settings.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

namespace {

constexpr std::pair<Occasion, std::string_view> kNames[] = {{Occasion::best, "best"},
                                                            {Occasion::stall, "stall"},
                                                            {Occasion::budget, "budget"},
                                                            {Occasion::trouble, "trouble"},
                                                            {Occasion::end, "end"}};

std::vector<std::string> occasion_names() {
  std::vector<std::string> names;
  for (const auto& [occasion, name] : kNames) names.emplace_back(name);
  return names;
}

// A part of a webhook's path that only its owner knows: long, of letters and digits.
bool looks_like_a_token(const std::string& part) {
  constexpr std::size_t kShortest = 20;
  const auto any = [&](int (*is)(int)) {
    return std::ranges::any_of(part, [&](unsigned char c) { return is(c) != 0; });
  };
  return part.size() >= kShortest && any(std::isdigit) && any(std::isalpha) && part.find('.') == part.npos;
}

NotifyChannel read_channel(const YamlNode& node) {
  YamlMap map = node.map();
  NotifyChannel channel;
  int ways = 0;
  if (auto command = map.optional("command")) {
    ++ways;
    channel.command = command->strings();
    if (channel.command.empty()) command->fail("name a program, for example [notify-send, Cultivar]");
    if (const auto where = secret_in(channel.command))
      command->fail("a key must not be in the configuration, which becomes part of the record (" + *where +
                    "): let the program read it from its environment or a file");
  }
  if (auto webhook = map.optional("webhook")) {
    ++ways;
    channel.webhook = webhook->string();
    if (!channel.webhook.starts_with("http://") && !channel.webhook.starts_with("https://"))
      webhook->fail("a webhook is a URL that starts with https:// or http://");
    std::string part;
    for (const char c : channel.webhook + "/") {
      if (c != '/' && c != '?' && c != '=' && c != '&') {
        part += c;
        continue;
      }
      if (looks_like_a_secret(part) || looks_like_a_token(part))
        webhook->fail(
            "the URL seems to hold a key, and the configuration becomes part of the record: put the URL into "
            "an environment variable, and its name into `webhook_env`");
      part.clear();
    }
  }
  if (auto variable = map.optional("webhook_env")) {
    ++ways;
    channel.webhook_env = variable->identifier();
  }
  if (ways != 1) node.fail("give one of command, webhook and webhook_env");
  if (auto on = map.optional("on")) {
    channel.on.clear();
    for (const YamlNode& item : on->items()) {
      const std::string name = item.one_of(occasion_names());
      for (const auto& [occasion, known] : kNames)
        if (known == name) channel.on.insert(occasion);
    }
    if (channel.on.empty())
      on->fail(
          "the list is empty: name what to tell, for example [best, end], or remove the key for "
          "everything");
  }
  map.finish();
  return channel;
}

}  // namespace

std::string_view name_of(Occasion occasion) {
  return std::ranges::find(kNames, occasion, [](const auto& each) { return each.first; })->second;
}

const std::set<Occasion>& all_occasions() {
  static const std::set<Occasion> all{Occasion::best, Occasion::stall, Occasion::budget, Occasion::trouble,
                                      Occasion::end};
  return all;
}

std::string NotifyChannel::name() const {
  if (!command.empty()) return "the command " + command.front();
  if (!webhook_env.empty()) return "the webhook in " + webhook_env;
  const std::size_t host = webhook.find("//") + 2;
  const std::size_t at = webhook.find('@', host), end = webhook.find('/', host);
  return "the webhook " + (at < end ? webhook.substr(at + 1, end - at - 1) : webhook.substr(0, end));
}

std::vector<NotifyChannel> read_notify(const YamlNode& node) {
  constexpr std::size_t kMostChannels = 16;
  std::vector<NotifyChannel> channels;
  for (const YamlNode& item : node.items()) channels.push_back(read_channel(item));
  if (channels.size() > kMostChannels) node.fail(fmt::format("at most {} channels", kMostChannels));
  return channels;
}

std::string notify_yaml(const std::vector<NotifyChannel>& channels) {
  if (channels.empty()) return {};
  nlohmann::json list = nlohmann::json::array();
  for (const NotifyChannel& channel : channels) {
    nlohmann::json& one = list.emplace_back();
    if (!channel.command.empty()) one["command"] = channel.command;
    if (!channel.webhook.empty()) one["webhook"] = channel.webhook;
    if (!channel.webhook_env.empty()) one["webhook_env"] = channel.webhook_env;
    for (const Occasion occasion : channel.on) one["on"].push_back(name_of(occasion));
  }
  return "notify: " + json_text(list) + "\n";
}

}  // namespace cultivar
