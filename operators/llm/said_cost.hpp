// What a provider says that a call has cost, within what can be true: caps are kept with these numbers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

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

// Sums end at the largest number that four of them still fit beside.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);

}  // namespace cultivar
