// SPDX-License-Identifier: Apache-2.0
#include "engine/store/plausible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

[[noreturn]] void inconsistent(const std::string& how) {
  throw InconsistentRecord("the record is inconsistent: " + how);
}

// A path below the folder for which it is meant, at most one folder deep.
bool stays_inside(const std::string& name) {
  const std::filesystem::path path(name);
  if (name.empty() || path.is_absolute() || name.find('\0') != std::string::npos) return false;
  const auto plain = [](const std::filesystem::path& part) {
    return part != ".." && part != "." && !part.empty();
  };
  return std::distance(path.begin(), path.end()) <= 2 && std::ranges::all_of(path, plain);
}

}  // namespace

double number_in(const std::string& text, std::string_view what) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    inconsistent(fmt::format("its {} is '{}', not a number", what, plain_line(text, 40)));
  return value;
}

IndividualId existing(IndividualId id, std::int64_t count) {
  if (id < 1 || id > count) inconsistent(fmt::format("it names individual {}, but holds {}", id, count));
  return id;
}

void require_inside(const RunFacts& facts) {
  const auto require = [](const std::string& name) {
    if (!stays_inside(name))
      inconsistent(fmt::format("'{}' is not a name for a file of its task", plain_line(name, 200)));
  };
  require(facts.task_name);
  for (const auto& [name, text] : facts.task_files.items()) require(name);
}

void require_plausible(IndividualId id, IndividualState state) {
  if (state < IndividualState::proposed || state > IndividualState::rejected)
    inconsistent(fmt::format("individual {} has an unknown state", id));
}

void require_plausible(const IndividualRow& row) {
  constexpr std::size_t longest_name = 200;
  const Individual& i = row.individual;
  require_plausible(i.id, row.state);
  if (!std::isfinite(i.fitness)) inconsistent(fmt::format("individual {} has no finite fitness", i.id));
  if (i.descent.op.size() > longest_name || i.descent.model.size() > longest_name)
    inconsistent(fmt::format("the operator or the model of individual {} has a name of more than {} bytes",
                             i.id, longest_name));
}

void require_plausible(const DecisionRow& decision) {
  if (!std::isfinite(decision.elapsed_s)) inconsistent(fmt::format("decision {} has no time", decision.seq));
}

}  // namespace cultivar
