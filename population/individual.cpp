// SPDX-License-Identifier: Apache-2.0
#include "population/individual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace cultivar {

std::string name_of(Origin origin, const std::string& op) {
  switch (origin) {
    case Origin::seed:
      return "seed";
    case Origin::submission:
      return "submit";
    case Origin::operator_:
      break;
  }
  return op;
}

void set_origin(Descent& descent, std::string_view name) {
  descent.origin = name == "seed" ? Origin::seed : name == "submit" ? Origin::submission : Origin::operator_;
  descent.op = descent.origin == Origin::operator_ ? std::string(name) : std::string();
}

std::vector<IndividualId> chain_to_seed(IndividualId id, const ParentsOf& parents_of) {
  std::vector<IndividualId> chain{id};
  for (auto parents = parents_of(id); !parents.empty(); parents = parents_of(chain.back())) {
    if (parents.front() < 1 || parents.front() >= chain.back())
      throw std::logic_error("individual " + std::to_string(chain.back()) + " names " +
                             std::to_string(parents.front()) + " as a parent, which is not older");
    chain.push_back(parents.front());
  }
  std::ranges::reverse(chain);
  return chain;
}

bool in_one_line(IndividualId a, IndividualId b, const ParentsOf& parents_of) {
  const IndividualId older = std::min(a, b);
  // An ancestor is older, so nothing older than the older one needs a look.
  std::vector<IndividualId> next{std::max(a, b)};
  std::set<IndividualId> seen;
  while (!next.empty()) {
    const IndividualId id = next.back();
    next.pop_back();
    if (id == older) return true;
    if (id < older || !seen.insert(id).second) continue;
    for (const IndividualId parent : parents_of(id)) next.push_back(parent);
  }
  return false;
}

std::optional<DuelResult> result_of(const Decision& decision, IndividualId incumbent) {
  constexpr double kWide = 0.2, kImpossible = 100.0;  // logarithms
  constexpr int kManyPairs = 4, kManyRuns = 30;
  if (decision.blocks == 0 && decision.batches == 0) return std::nullopt;
  if (!(std::fabs(decision.log_ratio) < kImpossible)) return std::nullopt;
  if (decision.verdict == Verdict::undecided && decision.blocks < kManyPairs && decision.runs < kManyRuns &&
      !(decision.upper - decision.lower < kWide))
    return std::nullopt;
  DuelResult result{incumbent, decision.verdict, {decision.log_ratio, decision.lower, decision.upper}, {}};
  for (const WorkloadRatio& w : decision.workloads)
    result.workloads.push_back({w.log_ratio, w.lower, w.upper});
  return result;
}

std::string gain_words(const SpeedRatio& ratio) {
  const auto percent = [](double log_ratio) {
    return fmt::format("{:+.{}f}", 100.0 * std::expm1(log_ratio), std::fabs(log_ratio) < 1.0 ? 1 : 0);
  };
  const bool from = std::isfinite(ratio.lower), to = std::isfinite(ratio.upper);
  return fmt::format("{} % ({})", percent(ratio.log_ratio),
                     from && to ? fmt::format("{} to {} %", percent(ratio.lower), percent(ratio.upper))
                     : from     ? fmt::format("at least {} %", percent(ratio.lower))
                     : to       ? fmt::format("at most {} %", percent(ratio.upper))
                                : std::string("no bounds yet"));
}

std::string ratio_words(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  return fmt::format("{:.{}f}x", ratio,
                     ratio >= 100                  ? 0
                     : ratio >= 10                 ? 1
                     : ratio >= 1.1 || ratio < 0.9 ? 2
                                                   : 3);
}

}  // namespace cultivar
