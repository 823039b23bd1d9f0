// SPDX-License-Identifier: Apache-2.0
// The cost of calls, and the caps on it. A call in flight counts with its maximum cost, so that pending
// answers cannot exceed a cap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "operators/llm/model_config.hpp"

namespace cultivar {

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
