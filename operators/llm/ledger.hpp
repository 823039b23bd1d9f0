// What calls cost, and what they may cost. A call in flight counts with the most that it can cost, so that no
// cap is passed by answers that are still to come.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "operators/llm/model_config.hpp"

namespace cultivar {

struct Spent {
  std::int64_t calls = 0;   // that were sent
  std::int64_t failed = 0;  // of them
  Usage usage;
  double usd = 0.0;
  double uncertain_usd = 0.0;  // part of usd: estimated, or reserved by calls that a crash ended
  Spent& operator+=(const Spent&);
  Spent& operator-=(const Spent&);  // of a part of it
};

struct Caps {
  Cap run;
  std::map<std::string, Cap> by_operator, by_model;  // models by their configuration's name
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
  // Empty: it fits. Otherwise which cap forbids it, in words. `even_alone`: also when nothing is in flight.
  std::string forbids(const Reservation&, bool* even_alone = nullptr) const;
  void reserve(const Reservation&);
  // The call is over: what it held is free, and what it cost is spent.
  void settle(const Reservation&, const Usage& used, double usd, bool failed);
  // From the record of earlier sessions.
  void add(const std::string& op, const std::string& model, const Spent&);
  // Takes back what was added: a call whose end was unknown is asked again and is the same call.
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
