// SPDX-License-Identifier: Apache-2.0
// How an intervention changes what is proposed next, and which kernel a question is about.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operators/portfolio.hpp"
#include "operators/supervisor/supervisor.hpp"
#include "population/archive.hpp"
#include "population/strategy.hpp"

namespace cultivar {

// The sources and directions that the latest proposals and questions used. A value; not thread-safe.
class Lately {
 public:
  void used(const std::string& source_id, const std::string& direction);
  std::set<std::string> sources() const;
  std::set<std::string> directions() const;

 private:
  static constexpr std::size_t kMost = 12;
  std::deque<std::pair<std::string, std::string>> uses_;
};

// The shares of the arms during an intervention, by arm; not normalized.
std::vector<double> steered(std::vector<double> shares, const std::vector<Portfolio::Arm>&,
                            const std::optional<Intervention>&);

// The answers for which these arms, this strategy and this best kernel have the means. `ancestors`: as below.
std::set<Answer> possible_answers(const std::vector<Portfolio::Arm>&, const Strategy&, StrategyKind,
                                  const std::vector<IndividualId>& ancestors);

// The measured ancestors of the best in the order in which they are tried as parents: the middle of its line,
// then half as far from the seed, and so on to the seed. One for each source but its own.
std::vector<IndividualId> older_ancestors(IndividualId best, const Archive&);

// A question is not about a kernel that was left behind, or from which the first kernels are being evaluated.
//
// Of `candidates`, the fittest that descends from the source of `id`, has another source and is at least
// kLeftBehind times as fast; 0: none, or `id` is not measured.
IndividualId faster_descendant(IndividualId id, const std::set<IndividualId>& candidates, const Archive&);

// Whether a kernel that was written from the source of `id` is in flight, and none was judged yet.
bool first_offspring_due(IndividualId id, const Archive&);

}  // namespace cultivar
