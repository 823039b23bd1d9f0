// SPDX-License-Identifier: Apache-2.0
// The cost of a call as reported by a provider, limited to plausible values, because caps depend on these
// numbers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "operators/llm/chat.hpp"

namespace cultivar {

inline constexpr std::int64_t kMostTokensSaid = 1'000'000'000;  // of one kind, for one call
inline constexpr double kMostUsdSaid = 100'000.0;               // for one call

// Field `key` of an object; 0 if it is missing, negative or not a number.
std::int64_t said_tokens(const nlohmann::json& object, const char* key);
// nullopt if it is missing, negative or not a number.
std::optional<double> said_usd(const nlohmann::json& object, const char* key);

Usage within_reason(Usage);
double within_reason(double usd);

// The cost that is counted for a call. Far more output than was asked for, far more input tokens than the
// prompt has bytes, and a price above that of the dearest tokens are implausible: then the most that was
// expected counts, and `not_believed` explains it. Somewhat more is plausible and counts as it is: programs
// add their own text to prompts and ask again themselves, and some servers do not apply the limit of the
// output.
struct BelievedCost {
  Usage usage;
  std::optional<double> usd;
  std::string not_believed;
};
struct ReservedCost {  // what was expected at most
  Usage usage;
  double usd = 0.0;  // 0 if the model has no prices
  std::size_t prompt_bytes = 0;
};
BelievedCost believed(Usage said, std::optional<double> usd, const ReservedCost&);

// Sums saturate, so that four of them can be added without overflow.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);

}  // namespace cultivar
