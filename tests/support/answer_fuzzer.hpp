// SPDX-License-Identifier: Apache-2.0
// Answers of all providers with faults: cut at any byte, events and fields dropped, repeated, moved, of
// another type. A plain parser says what can be read of them and which cost they name; the readers of
// Cultivar must not do worse.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cultivar::testing {

struct RecordedAnswer {
  std::string provider;  // as in a configuration; `command`: the output of `claude -p`
  std::vector<std::string> events;
  std::string whole() const;
};
std::vector<RecordedAnswer> recorded_answers();

// With one to three faults.
std::string with_faults(const RecordedAnswer&, std::mt19937_64&);

// Reads the bytes in pieces. Empty if the readers did as well as the plain parser; otherwise what they lost.
std::string lost_in(const std::string& provider, const std::string& bytes, std::mt19937_64& pieces);

}  // namespace cultivar::testing
