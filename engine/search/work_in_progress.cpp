#include "engine/search/work_in_progress.hpp"

#include <fmt/format.h>

namespace cultivar {

std::string WorkInProgress::first_step() const {
  using Doing = InFlight::Doing;
  std::vector<Entry> all = entries();
  std::erase_if(all, [](const Entry& each) { return each.doing > Doing::evaluating; });
  const auto first = std::ranges::max_element(all, {}, &Entry::doing);
  if (first == all.end()) return {};
  const auto what = [&]() -> std::string {
    switch (first->doing) {
      case Doing::waiting_for_compiler:
        return "waits for a compiler";
      case Doing::compiling:
        return "is being compiled";
      case Doing::waiting_for_device:
        return "is compiled and waits for the device";
      default:
        return "is being evaluated" + (first->note.empty() ? "" : ": " + first->note);
    }
  };
  return fmt::format("#{} {} ({:.0f} s)", first->id, what(), seconds_since(first->since));
}

}  // namespace cultivar
