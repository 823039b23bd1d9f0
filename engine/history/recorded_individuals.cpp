// SPDX-License-Identifier: Apache-2.0
#include "engine/history/recorded_individuals.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "engine/store/rows.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

RecordedIndividuals::RecordedIndividuals(const Record& record, const Archive& known)
    : query_(std::make_unique<SQLite::Statement>(
          record.database(),
          "SELECT id, variant_id, source, configuration, parents, op, island, usd, fitness, "
          "duplicate_of, machine_code, workload_values, stage, state FROM individuals WHERE id >= ? "
          "ORDER BY id")) {
  each_row(record.database(), "SELECT number, source_id FROM sources", [this](SQLite::Statement& row) {
    sources_.emplace(column<std::int64_t>(row, 0), column<std::string>(row, 1));
  });
  for (const IndividualId id : known.in_flight()) {
    query_->reset();
    query_->bind(1, id);
    next(id);
  }
  query_->reset();
  query_->bind(1, known.size() + 1);
}

RecordedIndividuals::~RecordedIndividuals() = default;

Individual RecordedIndividuals::next(IndividualId id) {
  if (!query_->executeStep() || query_->getColumn(0).getInt64() != id)
    throw std::runtime_error(
        fmt::format("the record is inconsistent: it proposes individual {} but does not hold it", id));
  Individual i;
  Result result;
  std::int64_t source = 0;
  std::string configuration, parents, values, origin, stage;
  read_row(*query_, i.id, i.variant_id, source, configuration, parents, origin, i.descent.island,
           i.descent.usd, result.fitness, result.duplicate_of, result.machine_code, values, stage);
  i.source_id = sources_.at(source);
  i.configuration = configuration_in(configuration);
  i.descent.parents = whole_numbers_in(parents);
  result.workload_values = numbers_in(values);
  set_origin(i.descent, origin);
  result.stage = stage_named(stage);
  const auto state = column<IndividualState>(*query_, 13);
  require_plausible(i.id, state);
  result.measured = state == IndividualState::measured;
  unjudged_.emplace(i.id, std::move(result));
  return i;
}

RecordedIndividuals::Result RecordedIndividuals::result(IndividualId id) {
  auto found = unjudged_.extract(id);
  if (found.empty())
    throw std::runtime_error(fmt::format(
        "the record is inconsistent: it judges individual {}, which was not proposed or is judged", id));
  return std::move(found.mapped());
}

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
