#include "engine/store/names.hpp"

#include <fmt/format.h>

namespace cultivar {

IndividualId find_individual(const Record& record, const std::string& text) {
  if (text == "best" || text == "seed") {
    const auto id = text == "best" ? record.best() : record.first_seed();
    if (id) return *id;
    if (text == "best" && record.first_seed())
      throw InputError(
          "no kernel is the best of this run yet: what was measured waits for its confirmation in a fresh "
          "process, "
          "or failed there. Name one by its number instead");
    throw InputError(
        fmt::format("no {} has been measured in this run yet", text == "best" ? "kernel" : "seed"));
  }
  const std::string digits = text.starts_with('#') ? text.substr(1) : text;
  if (const auto id = record.find(digits)) return *id;
  throw InputError(
      fmt::format("this run has no individual '{}', or several begin so (it has 1 to {}, `best`, `seed`)",
                  text, record.count()));
}

}  // namespace cultivar
