// SPDX-License-Identifier: Apache-2.0
#include "engine/config/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/duration.hpp"

namespace cultivar {
namespace {

struct Read {
  const YamlNode& node;
  const Setting& setting;
  std::int64_t whole() const {
    return node.integer(static_cast<std::int64_t>(setting.least), static_cast<std::int64_t>(setting.most));
  }
  void operator()(int* value) const { *value = static_cast<int>(whole()); }
  void operator()(std::int64_t* value) const { *value = whole(); }
  void operator()(double* value) const { *value = node.number(setting.least, setting.most); }
  void operator()(bool* value) const { *value = node.boolean(); }
  void operator()(Seconds seconds) const { *seconds.value = read_duration(node, seconds.may_be_zero); }
};

struct Written {
  std::string operator()(Seconds seconds) const { return fmt::format("{}s", *seconds.value); }
  std::string operator()(const auto* value) const { return fmt::format("{}", *value); }
};

std::vector<std::string> entries(const Settings& settings) {
  std::vector<std::string> all;
  for (const Setting& setting : settings)
    all.push_back(fmt::format("{}: {}", setting.key, std::visit(Written{}, setting.value)));
  return all;
}

}  // namespace

void read_settings(YamlMap& map, const Settings& settings) {
  for (const Setting& setting : settings)
    if (const auto node = map.optional(setting.key)) std::visit(Read{*node, setting}, setting.value);
}

std::string flow_text(const Settings& settings) {
  return fmt::format("{{{}}}", fmt::join(entries(settings), ", "));
}

std::string block_text(const Settings& settings) {
  return fmt::format("  {}\n", fmt::join(entries(settings), "\n  "));
}

}  // namespace cultivar
