// SPDX-License-Identifier: Apache-2.0
#include "engine/search/work_in_progress.hpp"

#include <fmt/format.h>

namespace cultivar {

std::string WorkInProgress::step(double least_seconds) const {
  using Doing = InFlight::Doing;
  const std::vector<Entry> all = entries();
  const auto compared = [](const Entry& each) {
    return each.doing == Doing::duel || each.doing == Doing::confirmation;
  };
  if (all.empty() || std::ranges::any_of(all, compared)) return {};
  const auto first = std::ranges::max_element(all, {}, [](const Entry& each) {
    const bool urgent = each.doing == Doing::compiling && !each.note.empty();
    return std::pair(urgent ? Doing::waiting_for_device : each.doing, urgent);
  });
  const auto what = [&]() -> std::string {
    switch (first->doing) {
      case Doing::waiting_for_compiler:
        return "waits for a compiler";
      case Doing::compiling:
        return "is being compiled" + (first->note.empty() ? "" : " " + first->note);
      case Doing::waiting_for_device:
        return "is compiled and waits for the device";
      case Doing::profile:
        return "is being profiled" + (first->note.empty() ? "" : ": " + first->note);
      default:
        return "is being evaluated" + (first->note.empty() ? "" : ": " + first->note);
    }
  };
  const double seconds = seconds_since(first->since);
  return seconds < least_seconds ? "" : fmt::format("#{} {} ({:.0f} s)", first->id, what(), seconds);
}

}  // namespace cultivar
