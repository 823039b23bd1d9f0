// SPDX-License-Identifier: Apache-2.0
// The cost of calls as it was said, and the caps on it. A call in flight counts with its maximum cost, so
// that pending answers cannot exceed a cap.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "operators/llm/chat.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

// The cost of a call as reported by a provider, limited to plausible values, because caps depend on these
// numbers.

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

struct Spent {
  std::int64_t calls = 0;   // calls sent
  std::int64_t failed = 0;  // failed calls among them
  Usage usage;
  double usd = 0.0;
  double uncertain_usd = 0.0;  // part of usd: estimated, or reserved by calls that a crash interrupted
  Spent& operator+=(const Spent&);
  Spent& operator-=(const Spent&);  // subtracts a part
};

struct Caps {
  Cap run;
  std::map<std::string, Cap> by_operator, by_model;  // models by their name in the configuration
};

// Not thread-safe.
class Ledger {
 public:
  explicit Ledger(Caps caps) : caps_(std::move(caps)) {}

  struct Reservation {
    std::string op, model;
    Usage usage;
    double usd = 0.0;
  };
  // nullopt: the call fits under all caps. If several caps forbid it, the first of these is named: one that
  // waiting does not help with, the run's, the operator's, the model's.
  std::optional<Refusal> forbids(const Reservation&) const;
  void reserve(const Reservation&);
  // The call ended: releases its reservation and adds its cost.
  void settle(const Reservation&, const Usage& used, double usd, bool failed);
  // Adds usage recorded in earlier sessions.
  void add(const std::string& op, const std::string& model, const Spent&);
  // Subtracts usage that was added for a call with unknown outcome, because it is continued as the same call.
  void take_back(const std::string& op, const std::string& model, const Spent&);

  Spent run() const;
  const std::map<std::pair<std::string, std::string>, Spent>& by_operator_and_model() const { return spent_; }
  double reserved_usd() const { return held_.usd; }

 private:
  struct Sum {
    double usd = 0.0;
    std::int64_t tokens = 0;
  };
  Caps caps_;
  std::map<std::pair<std::string, std::string>, Spent> spent_;
  Sum held_;
  std::map<std::string, Sum> held_by_operator_, held_by_model_, spent_by_operator_, spent_by_model_;
  Sum spent_in_run_;
};

}  // namespace cultivar
