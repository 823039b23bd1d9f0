// SPDX-License-Identifier: Apache-2.0
#include "engine/search/spent_budget.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/duration.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::optional<SpentBudget> spent_budget(const Budget& budget, double elapsed_s, double device_s) {
  if (budget.wall_s > 0 && elapsed_s >= budget.wall_s)
    return SpentBudget{Outcome::Stop::wall,
                       fmt::format("the wall-clock budget of {} is exhausted", duration(budget.wall_s)),
                       budget.wall_s};
  if (budget.device_s > 0 && device_s >= budget.device_s)
    return SpentBudget{
        Outcome::Stop::device,
        fmt::format("the budget of {:.6g} device hours is exhausted", budget.device_s / 3600.0),
        budget.device_s};
  return std::nullopt;
}

IndividualId far_ahead(const Breeding& breeding) {
  constexpr double kClearly = 1.05;
  const Archive& archive = breeding.archive();
  const IndividualId best = breeding.incumbent();
  const IndividualId next = breeding.winner() != 0 ? breeding.winner() : breeding.challenger().value_or(0);
  if (next == 0 || best == 0) return next;
  return archive.fitness(next) > kClearly * archive.fitness(best) ? next : 0;
}

double grace_after(double limit_s, bool longer) {
  return std::max(std::clamp(0.1 * limit_s, 5.0, 60.0), longer ? 150.0 : 0.0);
}

std::string words_of_far_ahead(const Breeding& breeding, const std::filesystem::path& run_folder) {
  const IndividualId id = far_ahead(breeding), best = breeding.incumbent();
  if (id == 0 || best == 0) return {};
  return fmt::format(
      "; #{}, measured to be {:.3g} times as fast as the best, waits for its {}: `cultivar resume {}`", id,
      breeding.archive().fitness(id) / breeding.archive().fitness(best),
      id == breeding.winner() ? "confirmation" : "duel", shell_word(run_folder.string()));
}

}  // namespace cultivar
