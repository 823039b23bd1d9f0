#include "operators/llm/said_cost.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace cultivar {

using nlohmann::json;

namespace {

const json* number_at(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? &*found : nullptr;
}

}  // namespace

std::int64_t said_tokens(const json& object, const char* key) {
  const json* said = number_at(object, key);
  if (said == nullptr) return 0;
  const double about = said->get<double>();  // whatever kind of number it is
  if (!(about > 0)) return 0;
  if (about >= static_cast<double>(kMostTokensSaid)) return kMostTokensSaid;
  return static_cast<std::int64_t>(about);
}

std::optional<double> said_usd(const json& object, const char* key) {
  const json* said = number_at(object, key);
  if (said == nullptr || !(said->get<double>() >= 0)) return std::nullopt;
  return within_reason(said->get<double>());
}

Usage within_reason(Usage usage) {
  for (std::int64_t* count :
       {&usage.input, &usage.cached, &usage.cache_written, &usage.output, &usage.reasoning})
    *count = std::clamp<std::int64_t>(*count, 0, kMostTokensSaid);
  return usage;
}

double within_reason(double usd) {
  return usd > 0 ? std::min(usd, kMostUsdSaid) : 0.0;  // no number is not above 0 either
}

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? most : -most;
  return std::clamp(sum, -most, most);
}

}  // namespace cultivar
