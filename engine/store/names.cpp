// SPDX-License-Identifier: Apache-2.0
#include "engine/store/names.hpp"

#include <fmt/format.h>

namespace cultivar {

IndividualId find_individual(const Record& record, const std::string& text, const std::string& lister) {
  if (text == "best" || text == "seed") {
    const auto id = text == "best" ? record.best() : record.first_seed();
    if (id) return *id;
    if (text == "best" && record.first_seed())
      throw InputError(fmt::format(
          "this run has no best kernel yet: {}. Name an individual by its number",
          record.outstanding() ? fmt::format("the confirmation of #{} is pending", *record.outstanding())
                               : std::string("every measured kernel awaits confirmation or failed it")));
    throw InputError(
        fmt::format("no {} has been measured in this run yet", text == "best" ? "kernel" : "seed"));
  }
  const std::string digits = text.starts_with('#') ? text.substr(1) : text;
  if (const auto id = record.find(digits)) return *id;
  const bool draft =
      text.size() > 1 && text[0] == 'd' && text.find_first_not_of("0123456789", 1) == std::string::npos;
  const bool prefix =  // as opposed to a number that does not exist
      digits.size() >= 4 &&
      (digits.size() >= 8 || digits.find_first_not_of("0123456789") != std::string::npos) &&
      digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  const bool short_prefix = !prefix && !draft && digits.size() < 4 &&
                            digits.find_first_not_of("0123456789") != std::string::npos &&
                            digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  throw InputError(fmt::format(
      "{} '{}'{}. Valid names are 1 to {}, `best` and `seed`; {} shows them{}",
      prefix ? "no individual of this run, or more than one, has an id that starts with"
             : "this run has no individual",
      text, short_prefix ? " (of an id, at least four digits are needed)" : "", record.count(), lister,
      draft ? ". A draft such as d1 has that name only in the conversation that created it; the tool "
              "list_lineage has the names of others' drafts"
            : ""));
}

}  // namespace cultivar
