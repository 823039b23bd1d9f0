// SPDX-License-Identifier: Apache-2.0
// The sections `notify` and `metrics` of a configuration: who is told what happens in a search.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {

// best: a promotion; stall: a decision of the supervisor; budget: nine tenths of one are used; trouble; end.
enum class Occasion { best, stall, budget, trouble, end };
std::string_view name_of(Occasion);
const std::set<Occasion>& all_occasions();

// Exactly one of the first three is set.
struct NotifyChannel {
  std::vector<std::string> command;  // gets the notification as JSON on stdin
  std::string webhook;               // the URL to which it is posted
  std::string webhook_env;           // the environment variable that holds the URL, if it is a secret
  std::set<Occasion> on = all_occasions();

  std::string name() const;  // for messages; without the parts of a URL that may be secret
};

std::vector<NotifyChannel> read_notify(const YamlNode&);
// Empty if there is nothing to write; otherwise read_notify of the result gives equal channels.
std::string notify_yaml(const std::vector<NotifyChannel>&);

}  // namespace cultivar
