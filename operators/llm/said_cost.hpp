// What a provider says that a call has cost, within what can be true: caps are kept with these numbers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "operators/llm/chat.hpp"

namespace cultivar {

inline constexpr std::int64_t kMostTokensSaid = 1'000'000'000;  // of one kind, in one call
inline constexpr double kMostUsdSaid = 100'000.0;               // of one call

// Field `key` of an object. Missing, negative or no number: 0.
std::int64_t said_tokens(const nlohmann::json& object, const char* key);
// nullopt: missing, negative or no number.
std::optional<double> said_usd(const nlohmann::json& object, const char* key);

Usage within_reason(Usage);
double within_reason(double usd);

// What a call is counted with. Output and a price beyond what was reserved are not believed, nor is a prompt
// of far more tokens than it has bytes: then the reservation counts, and `not_believed` says so in words.
// Prompts may have somewhat more: programs put words of their own around them.
struct BelievedCost {
  Usage usage;
  std::optional<double> usd;
  std::string not_believed;
};
struct ReservedCost {
  Usage usage;
  double usd = 0.0;  // 0: the model has no prices
  std::size_t prompt_bytes = 0;
};
BelievedCost believed(Usage said, std::optional<double> usd, const ReservedCost&);

// Sums end at the largest number that four of them still fit beside.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);

}  // namespace cultivar
