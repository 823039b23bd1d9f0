// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace cultivar {

namespace {

template <class Map>
auto at_or_none(const Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found != map.end() ? found->second : typename Map::mapped_type{};
}

}  // namespace

Spent& Spent::operator+=(const Spent& other) {
  calls += other.calls;
  failed += other.failed;
  usage += other.usage;
  usd += other.usd;
  uncertain_usd += other.uncertain_usd;
  return *this;
}

Spent& Spent::operator-=(const Spent& part) {
  calls -= part.calls;
  failed -= part.failed;
  usage.input -= part.usage.input;
  usage.cached -= part.usage.cached;
  usage.cache_written -= part.usage.cache_written;
  usage.output -= part.usage.output;
  usage.reasoning -= part.usage.reasoning;
  // Remove rounding errors.
  usd = calls == 0 ? 0.0 : usd - part.usd;
  uncertain_usd = calls == 0 ? 0.0 : uncertain_usd - part.uncertain_usd;
  if (calls == 0) usage.estimated = false;
  return *this;
}

std::optional<Refusal> Ledger::forbids(const Reservation& wanted) const {
  const std::int64_t tokens = wanted.usage.total();
  std::optional<Refusal> refusal;
  const auto ask = [&](CapScope scope, const std::string& whose, const Cap& cap, const Sum& spent,
                       const Sum& held) {
    std::string words;
    bool alone = false;
    // A small tolerance, because sums of prices are not exact.
    if (cap.usd && spent.usd + held.usd + wanted.usd > *cap.usd * (1 + 1e-9)) {
      words = fmt::format(
          "the cap of {} {:.2f} USD: {:.4f} spent, {:.4f} reserved by calls in flight, and "
          "this call may cost {:.4f}",
          whose, *cap.usd, spent.usd, held.usd, wanted.usd);
      alone = spent.usd + wanted.usd > *cap.usd * (1 + 1e-9);
    } else if (cap.tokens && spent.tokens + held.tokens + tokens > *cap.tokens) {
      words = fmt::format(
          "the cap of {} {} tokens: {} are used, {} reserved by calls in flight, and this call may "
          "use {}",
          whose, *cap.tokens, spent.tokens, held.tokens, tokens);
      alone = spent.tokens + tokens > *cap.tokens;
    } else {
      return;
    }
    if (!refusal || (alone && !refusal->even_alone)) refusal = Refusal{scope, std::move(words), alone};
  };
  ask(CapScope::run, "the run,", caps_.run, spent_in_run_, held_);
  ask(CapScope::op, "operator " + wanted.op + ",", at_or_none(caps_.by_operator, wanted.op),
      at_or_none(spent_by_operator_, wanted.op), at_or_none(held_by_operator_, wanted.op));
  ask(CapScope::model, "model " + wanted.model + ",", at_or_none(caps_.by_model, wanted.model),
      at_or_none(spent_by_model_, wanted.model), at_or_none(held_by_model_, wanted.model));
  return refusal;
}

void Ledger::reserve(const Reservation& r) {
  for (Sum* sum : {&held_, &held_by_operator_[r.op], &held_by_model_[r.model]}) {
    sum->usd += r.usd;
    sum->tokens += r.usage.total();
  }
}

void Ledger::settle(const Reservation& r, const Usage& used, double usd, bool failed) {
  for (Sum* sum : {&held_, &held_by_operator_[r.op], &held_by_model_[r.model]}) {
    sum->tokens -= r.usage.total();
    sum->usd = sum->tokens == 0 ? 0.0 : sum->usd - r.usd;  // remove rounding errors
  }
  Spent spent;
  spent.calls = 1;
  spent.failed = failed ? 1 : 0;
  spent.usage = used;
  spent.usd = usd;
  spent.uncertain_usd = used.estimated ? usd : 0.0;
  add(r.op, r.model, spent);
}

void Ledger::add(const std::string& op, const std::string& model, const Spent& spent) {
  spent_[{op, model}] += spent;
  for (Sum* sum : {&spent_in_run_, &spent_by_operator_[op], &spent_by_model_[model]}) {
    sum->usd += spent.usd;
    sum->tokens = saturated_sum(sum->tokens, spent.usage.total());
  }
}

void Ledger::take_back(const std::string& op, const std::string& model, const Spent& part) {
  spent_[{op, model}] -= part;
  for (Sum* sum : {&spent_in_run_, &spent_by_operator_[op], &spent_by_model_[model]}) {
    sum->tokens -= part.usage.total();
    sum->usd = sum->tokens == 0 ? 0.0 : sum->usd - part.usd;
  }
}

Spent Ledger::run() const {
  Spent sum;
  for (const auto& [key, spent] : spent_) sum += spent;
  return sum;
}

using nlohmann::json;

namespace {

// Some gateways write numbers as text.
std::optional<double> number_at(const json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();  // any kind of number
  if (!found->is_string()) return std::nullopt;
  const std::string& text = found->get_ref<const std::string&>();
  double number = 0.0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && stop == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::int64_t said_tokens(const json& object, const char* key) {
  const double about = number_at(object, key).value_or(0.0);
  if (!(about > 0)) return 0;
  if (about >= static_cast<double>(kMostTokensSaid)) return kMostTokensSaid;
  return static_cast<std::int64_t>(about);
}

std::optional<double> said_usd(const json& object, const char* key) {
  const std::optional<double> said = number_at(object, key);
  if (!said || !(*said >= 0)) return std::nullopt;
  return within_reason(*said);
}

Usage within_reason(Usage usage) {
  for (std::int64_t* count :
       {&usage.input, &usage.cached, &usage.cache_written, &usage.output, &usage.reasoning})
    *count = std::clamp<std::int64_t>(*count, 0, kMostTokensSaid);
  return usage;
}

double within_reason(double usd) {
  return usd > 0 ? std::min(usd, kMostUsdSaid) : 0.0;  // NaN is not above 0 either
}

BelievedCost believed(Usage said, std::optional<double> usd, const ReservedCost& reserved) {
  constexpr std::int64_t others_words = 200'000, beyond_the_limit = 200'000;  // tokens
  constexpr double dearest_token = 1e-3;                                      // USD
  BelievedCost cost{within_reason(said), usd, {}};
  Usage& counted = cost.usage;
  const auto doubt = [&](const std::string& words) {
    cost.not_believed += (cost.not_believed.empty() ? "" : "; ") + words;
    counted.estimated = true;
  };
  // Some servers do not apply the limit, or not to reasoning.
  if (counted.output > reserved.usage.output + beyond_the_limit) {
    if (!said.estimated)
      doubt(fmt::format("the provider reported {} output tokens for a call limited to {}", counted.output,
                        reserved.usage.output));
    counted.output = reserved.usage.output;
    counted.reasoning = std::min(counted.reasoning, counted.output);
  }
  const std::int64_t input = counted.input + counted.cached + counted.cache_written;
  if (input > static_cast<std::int64_t>(reserved.prompt_bytes) + others_words &&
      input > reserved.usage.input) {
    doubt(fmt::format("the provider reported {} input tokens for a prompt of {} bytes", input,
                      reserved.prompt_bytes));
    counted.input = reserved.usage.input;
    counted.cached = counted.cache_written = 0;
  }
  if (!usd) return cost;
  cost.usd = within_reason(*usd);
  const double most = std::max(
      reserved.usd, dearest_token * static_cast<double>(std::max(reserved.usage.total(), counted.total())));
  if (*cost.usd > most * (1 + 1e-9)) {
    doubt(fmt::format("the provider reported {:.4f} USD for a call that can cost at most {:.4f}", *cost.usd,
                      most));
    cost.usd = most;
  }
  return cost;
}

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? most : -most;
  return std::clamp(sum, -most, most);
}

}  // namespace cultivar
