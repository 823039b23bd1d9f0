// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/tried_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cultivar {
namespace {

struct Tried {
  IndividualId id = 0;
  Configuration differing;
  double effect = 0.0;  // its speed over the subject's, as a logarithm
};

Configuration differing(const Configuration& other, const Configuration& own) {
  Configuration found;
  for (const auto& [name, value] : other)
    if (const auto mine = own.find(name); mine == own.end() || mine->second != value) found[name] = value;
  return found;
}

}  // namespace

void add_tried_values(PromptWriter& to) {
  constexpr std::size_t kMost = 10;
  const Archive& archive = to.context().archive;
  const Member subject = archive.member(to.subject());
  if (subject.configuration.empty() || subject.state != Member::State::measured) return;
  std::vector<Tried> tried;
  for (IndividualId id = 1; id <= archive.size(); ++id) {
    if (id == subject.id || archive.state(id) != Member::State::measured || archive.duplicate_of(id) != 0 ||
        archive.source_id(id) != subject.source_id)
      continue;
    Configuration values = differing(archive.member(id).configuration, subject.configuration);
    if (!values.empty() && archive.fitness(id) > 0.0)
      tried.push_back({id, std::move(values), std::log(archive.fitness(id) / subject.fitness)});
  }
  if (tried.empty()) return;
  std::ranges::sort(tried, [](const Tried& a, const Tried& b) {
    if (a.differing.size() != b.differing.size()) return a.differing.size() < b.differing.size();
    return std::abs(a.effect) > std::abs(b.effect);
  });
  const std::size_t left_out = tried.size() - std::min(tried.size(), kMost);
  tried.resize(tried.size() - left_out);
  double noise = 0.0;
  std::string rows;
  for (const Tried& each : tried) {
    if (!to.speeds().by_duels(each.id, subject.id))
      noise = std::max(noise, to.speeds().noise(each.id, subject.id));
    const std::string least = to.speeds().least_gain(each.id, subject.id);
    rows += fmt::format("- {}: {:+.1f} %{}\n", describe_configuration(each.differing),
                        100.0 * std::expm1(each.effect), least.empty() ? "" : ", " + least);
  }
  std::string words = "Other values of its tunables, and the speed that they gave beside it";
  if (noise > 0.0)
    words += fmt::format(" (by one measurement of each: noise up to {:.0f} %)", 100.0 * std::expm1(noise));
  words += ":\n" + rows;
  if (left_out > 0) words += fmt::format("- {} more\n", left_out);
  to.add("parent", std::move(words), 3, "tried values");
}

}  // namespace cultivar
