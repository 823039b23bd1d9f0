#include "engine/store/names.hpp"

#include <fmt/format.h>

namespace cultivar {

IndividualId find_individual(const Record& record, const std::string& text) {
  if (text == "best" || text == "seed") {
    const auto id = text == "best" ? record.best() : record.first_seed();
    if (id) return *id;
    if (text == "best" && record.first_seed())
      throw InputError(fmt::format(
          "no kernel is the best of this run yet: {}. Name one by its number instead",
          record.outstanding()
              ? fmt::format("#{} would be, its confirmation is outstanding", *record.outstanding())
              : std::string("what was measured waits for its confirmation, or failed it")));
    throw InputError(
        fmt::format("no {} has been measured in this run yet", text == "best" ? "kernel" : "seed"));
  }
  const std::string digits = text.starts_with('#') ? text.substr(1) : text;
  if (const auto id = record.find(digits)) return *id;
  const bool draft =
      text.size() > 1 && text[0] == 'd' && text.find_first_not_of("0123456789", 1) == std::string::npos;
  const bool prefix =  // rather than a number that there is not
      digits.size() >= 4 &&
      (digits.size() >= 8 || digits.find_first_not_of("0123456789") != std::string::npos) &&
      digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  throw InputError(fmt::format(
      "{} '{}': it has 1 to {}, `best` and `seed`, and `cultivar lineage RUN` (for an agent: list_lineage) "
      "lists "
      "those that became the best{}",
      prefix ? "no individual of this run, or more than one, begins with" : "this run has no individual",
      text, record.count(),
      draft ? ". Drafts like d1 are known only to the conversation that makes them" : ""));
}

}  // namespace cultivar
