// SPDX-License-Identifier: Apache-2.0
#include "engine/history/usual_json.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "engine/store/rows.hpp"
#include "evaluators/variant/configuration_json.hpp"

namespace cultivar {

namespace {

// Reads from the front of a text. What is not there leaves the text as it is.
class Front {
 public:
  explicit Front(std::string_view text) : left_(text) {}

  bool empty() const { return left_.empty(); }
  bool take(std::string_view expected) {
    if (!left_.starts_with(expected)) return false;
    left_.remove_prefix(expected.size());
    return true;
  }
  // Without escapes.
  std::optional<std::string_view> quoted() {
    if (!left_.starts_with('"')) return std::nullopt;
    const std::size_t end = left_.find_first_of("\"\\", 1);
    if (end == std::string_view::npos || left_[end] == '\\') return std::nullopt;
    const std::string_view inside = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return inside;
  }
  template <class Number>
  std::optional<Number> number() {
    const std::size_t end = std::min(left_.find_first_not_of("0123456789+-.eE"), left_.size());
    Number value{};
    const auto [at, error] = std::from_chars(left_.data(), left_.data() + end, value);
    if (error != std::errc() || at != left_.data() + end) return std::nullopt;
    left_.remove_prefix(end);
    return value;
  }

 private:
  std::string_view left_;
};

template <class Number>
std::optional<std::vector<Number>> list(Front from) {
  std::vector<Number> numbers;
  if (!from.take("[")) return std::nullopt;
  for (bool first = true; !from.take("]"); first = false) {
    if (!first && !from.take(",")) return std::nullopt;
    const auto number = from.number<Number>();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return from.empty() ? std::optional(std::move(numbers)) : std::nullopt;
}

// {"NAME":VALUE,...}, each by value(name), which says whether it was as expected.
template <class Value>
bool members(Front& from, const Value& value) {
  if (!from.take("{")) return false;
  for (bool first = true; !from.take("}"); first = false) {
    if (!first && !from.take(",")) return false;
    const auto name = from.quoted();
    if (!name || !from.take(":") || !value(*name)) return false;
  }
  return true;
}

std::optional<Configuration> configuration(Front from) {
  Configuration settings;
  const auto value = [&](std::string_view name) {
    if (const auto number = from.number<std::int64_t>())
      settings.insert_or_assign(settings.end(), std::string(name), *number);
    else if (const auto word = from.quoted())
      settings.insert_or_assign(settings.end(), std::string(name), std::string(*word));
    else
      return false;
    return true;
  };
  return members(from, value) && from.empty() ? std::optional(std::move(settings)) : std::nullopt;
}

std::optional<JudgeBody> judged(Front from) {
  JudgeBody body;
  bool timed = false;
  const auto descriptor = [&](std::string_view name) {
    const auto number = from.number<double>();
    if (number) body.descriptors.insert_or_assign(body.descriptors.end(), std::string(name), *number);
    return number.has_value();
  };
  const auto value = [&](std::string_view name) {
    if (name == "descriptors") return members(from, descriptor);
    const auto number = from.number<double>();
    if (!number || (name != "device_s" && name != "spread")) return false;
    timed = timed || name == "device_s";
    (name == "spread" ? body.spread : body.device_s) = *number;
    return true;
  };
  return members(from, value) && from.empty() && timed ? std::optional(std::move(body)) : std::nullopt;
}

}  // namespace

Configuration configuration_in(const std::string& text) {
  if (auto usual = configuration(Front(text))) return *std::move(usual);
  return json_in(text).get<Configuration>();
}

std::vector<double> numbers_in(const std::string& text) {
  if (auto usual = list<double>(Front(text))) return *std::move(usual);
  return json_in(text).get<std::vector<double>>();
}

std::vector<std::int64_t> whole_numbers_in(const std::string& text) {
  if (auto usual = list<std::int64_t>(Front(text))) return *std::move(usual);
  return json_in(text).get<std::vector<std::int64_t>>();
}

JudgeBody judge_body(const std::string& text) {
  if (text.empty()) return {};
  if (auto usual = judged(Front(text))) return *std::move(usual);
  const nlohmann::json json = json_in(text);
  JudgeBody body{json.at("device_s").get<double>(), {}, 0.0};
  body.descriptors = json.value("descriptors", body.descriptors);
  body.spread = json.value("spread", 0.0);
  return body;
}

}  // namespace cultivar
