// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/ledger.hpp"

#include <fmt/format.h>

#include "operators/llm/said_cost.hpp"

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

}  // namespace cultivar
