// SPDX-License-Identifier: Apache-2.0
// Each rule around a model in isolation, with the test's own clock.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "operators/llm/call_policy.hpp"
#include "operators/llm/ledger.hpp"

using namespace cultivar;
using Kind = ChatError::Kind;

namespace {

ChatError error_of(Kind kind, std::optional<double> retry_after = {}) {
  ChatError error;
  error.kind = kind;
  error.retry_after_s = retry_after;
  return error;
}

Ledger::Reservation wanted(const std::string& op, const std::string& model, std::int64_t tokens, double usd) {
  Ledger::Reservation r;
  r.op = op;
  r.model = model;
  r.usage.output = tokens;
  r.usd = usd;
  return r;
}

Usage output_of(std::int64_t tokens) {
  Usage usage;
  usage.output = tokens;
  return usage;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(policy)

BOOST_AUTO_TEST_CASE(waits_double_are_bounded_and_differ_between_calls) {
  RetryRule rule;
  rule.first_wait_s = 2.0;
  rule.longest_wait_s = 30.0;
  RandomStream stream = stream_of(1, "test", 0);
  double least = 1e9, most = 0.0;
  for (int i = 0; i < 1000; ++i) {
    const double first = wait_before_retry(rule, 1, error_of(Kind::overloaded), stream);
    least = std::min(least, first);
    most = std::max(most, first);
    const double third = wait_before_retry(rule, 3, error_of(Kind::overloaded), stream);
    BOOST_TEST(third >= 4.0);
    BOOST_TEST(third < 8.0);
    BOOST_TEST(wait_before_retry(rule, 60, error_of(Kind::overloaded), stream) <= 30.0);
  }
  BOOST_TEST(least >= 1.0);
  BOOST_TEST(most < 2.0);
  BOOST_TEST(most - least > 0.9);  // they spread over all of it
}

BOOST_AUTO_TEST_CASE(the_server_s_own_wish_is_a_floor) {
  RetryRule rule;
  RandomStream stream = stream_of(1, "test", 0);
  BOOST_TEST(wait_before_retry(rule, 1, error_of(Kind::overloaded, 50.0), stream) >= 50.0);
  for (int i = 0; i < 100; ++i) {
    const double held = hold_time(rule, 1, error_of(Kind::rate_limited, 17.0), stream);
    BOOST_TEST(held >= 17.0);
    BOOST_TEST(held < 18.0);
  }
  BOOST_TEST(hold_time(rule, 1, error_of(Kind::out_of_credit), stream) >= 15.0);
  BOOST_TEST(hold_time(rule, 30, error_of(Kind::out_of_credit), stream) <= 600.0);
}

BOOST_AUTO_TEST_CASE(limits_of_money_and_rate_burn_no_attempt) {
  BOOST_TEST((consequence_of(Kind::rate_limited) == Consequence::hold));
  BOOST_TEST((consequence_of(Kind::out_of_credit) == Consequence::hold));
  BOOST_TEST((consequence_of(Kind::unwritable) == Consequence::hold));
  BOOST_TEST((consequence_of(Kind::overloaded) == Consequence::retry));
  BOOST_TEST((consequence_of(Kind::bad_request) == Consequence::next_model));
  BOOST_TEST((consequence_of(Kind::cancelled) == Consequence::give_up));
}

BOOST_AUTO_TEST_CASE(a_bucket_holds_a_minute_and_fills_evenly) {
  TokenBucket bucket(60.0, 100.0);
  for (int i = 0; i < 60; ++i) {
    BOOST_TEST(bucket.ready_at(1.0, 100.0) == 100.0);
    bucket.take(1.0, 100.0);
  }
  BOOST_TEST(std::abs(bucket.ready_at(1.0, 100.0) - 101.0) < 1e-6);
  BOOST_TEST(bucket.ready_at(1.0, 101.0) == 101.0);
  BOOST_TEST(std::abs(bucket.ready_at(30.0, 101.0) - 130.0) < 1e-6);
  BOOST_TEST(bucket.ready_at(60.0, 1000.0) == 1000.0);  // no more than a minute's worth is kept
  bucket.take(60.0, 1000.0);
  BOOST_TEST(bucket.ready_at(1.0, 1000.0) > 1000.9);
}

BOOST_AUTO_TEST_CASE(what_is_larger_than_the_bucket_passes_when_it_is_full) {
  TokenBucket bucket(60.0, 0.0);
  BOOST_TEST(bucket.ready_at(500.0, 0.0) == 0.0);
  bucket.take(500.0, 0.0);
  BOOST_TEST(std::abs(bucket.ready_at(1.0, 0.0) - 441.0) < 1e-6);  // and leaves a debt
}

BOOST_AUTO_TEST_CASE(output_counts_in_full_until_the_call_is_over) {
  RateLimit limit;
  limit.output_tokens = 1000;
  RateLimits limits(limit, 0.0);
  const Usage call = output_of(600);
  limits.begin(call, 0.0);
  BOOST_TEST(limits.ready_at(call, 0.0) > 11.0);
  limits.end(call, output_of(100), 0.0);
  BOOST_TEST(limits.ready_at(call, 0.0) == 0.0);
  limits.begin(call, 0.0);
  BOOST_TEST(std::abs(limits.ready_at(call, 0.0) - 18.0) < 1e-6);  // 300 are left, 300 more at 1000 a minute
}

BOOST_AUTO_TEST_CASE(a_breaker_opens_after_failures_in_a_row_tries_one_call_and_closes_again) {
  RetryRule rule;
  rule.breaker_failures = 3;
  rule.breaker_rest_s = 10.0;
  CircuitBreaker breaker(rule);
  breaker.failed(0.0);
  breaker.failed(0.0);
  breaker.succeeded();
  breaker.failed(1.0);
  breaker.failed(1.0);
  BOOST_TEST((breaker.state(1.0) == CircuitBreaker::State::closed));
  breaker.failed(1.0);
  BOOST_TEST((breaker.state(1.0) == CircuitBreaker::State::open));
  BOOST_TEST(breaker.ready_at(1.0) == 11.0);
  BOOST_TEST((breaker.state(11.0) == CircuitBreaker::State::trying));
  BOOST_TEST(breaker.ready_at(11.0) == 11.0);
  breaker.begin(11.0);
  BOOST_TEST(std::isinf(breaker.ready_at(11.5)));  // one at a time
  breaker.failed(12.0);
  BOOST_TEST(breaker.ready_at(12.0) == 32.0);  // twice as long
  breaker.begin(32.0);
  breaker.undecided();
  BOOST_TEST(breaker.ready_at(33.0) == 33.0);  // the next one may try
  breaker.begin(33.0);
  breaker.succeeded();
  BOOST_TEST((breaker.state(33.0) == CircuitBreaker::State::closed));
  for (int i = 0; i < 3; ++i) breaker.failed(40.0);
  BOOST_TEST(breaker.ready_at(40.0) == 50.0);  // short again
}

BOOST_AUTO_TEST_CASE(prices_count_cached_tokens_apart) {
  const Prices prices{3.0, 0.3, 3.75, 15.0};
  Usage usage;
  usage.input = 1'000'000;
  usage.cached = 2'000'000;
  usage.cache_written = 100'000;
  usage.output = 10'000;
  usage.reasoning = 9'000;  // part of the output: not paid twice
  BOOST_TEST(std::abs(prices.usd_of(usage) - (3.0 + 0.6 + 0.375 + 0.15)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(caps_count_what_is_in_flight_with_the_most_that_it_can_cost) {
  Caps caps;
  caps.run.usd = 1.0;
  Ledger ledger(caps);
  const auto call = wanted("mutate", "a", 1000, 0.3);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(!ledger.forbids(call));
    ledger.reserve(call);
  }
  auto refusal = ledger.forbids(call);
  BOOST_REQUIRE(refusal);
  BOOST_TEST((refusal->scope == CapScope::run));
  BOOST_TEST(!refusal->even_alone);  // it is worth waiting
  ledger.settle(call, output_of(10), 0.01, false);
  BOOST_TEST(!ledger.forbids(call));
  ledger.settle(call, output_of(990), 0.3, false);
  ledger.settle(call, output_of(990), 0.3, true);
  BOOST_TEST(ledger.reserved_usd() == 0.0);
  BOOST_TEST(!ledger.forbids(call));
  ledger.reserve(call);
  ledger.settle(call, output_of(990), 0.3, false);
  refusal = ledger.forbids(call);
  BOOST_REQUIRE(refusal);
  BOOST_TEST(refusal->even_alone);
  BOOST_TEST(ledger.run().calls == 4);
  BOOST_TEST(ledger.run().failed == 1);
  BOOST_TEST(std::abs(ledger.run().usd - 0.91) < 1e-12);
}

BOOST_AUTO_TEST_CASE(caps_of_an_operator_and_of_a_model_bind_only_these) {
  Caps caps;
  caps.by_operator["agent"].tokens = 1500;
  caps.by_model["dear"].usd = 0.5;
  Ledger ledger(caps);
  ledger.reserve(wanted("agent", "cheap", 1000, 0.1));
  const auto of_operator = ledger.forbids(wanted("agent", "cheap", 1000, 0.1));
  BOOST_REQUIRE(of_operator);
  BOOST_TEST((of_operator->scope == CapScope::op));
  BOOST_TEST(of_operator->words.find("operator agent") != std::string::npos);
  BOOST_TEST(!ledger.forbids(wanted("mutate", "cheap", 1000, 0.1)));
  const auto of_model = ledger.forbids(wanted("mutate", "dear", 1000, 0.6));
  BOOST_REQUIRE(of_model);
  BOOST_TEST((of_model->scope == CapScope::model));
  BOOST_TEST(of_model->words.find("model dear") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_cap_that_waiting_does_not_help_with_is_named_before_one_that_frees_itself) {
  Caps caps;
  caps.run.usd = 1.0;
  caps.by_operator["mutate"].usd = 0.2;
  Ledger ledger(caps);
  ledger.reserve(wanted("agent", "a", 1000, 0.8));
  const auto refusal = ledger.forbids(wanted("mutate", "a", 1000, 0.3));
  BOOST_REQUIRE(refusal);
  BOOST_TEST((refusal->scope == CapScope::op));
  BOOST_TEST(refusal->even_alone);
}

BOOST_AUTO_TEST_CASE(what_earlier_sessions_spent_counts) {
  Caps caps;
  caps.run.usd = 1.0;
  Ledger ledger(caps);
  Spent before;
  before.calls = 3;
  before.usd = 0.95;
  ledger.add("mutate", "a", before);
  BOOST_TEST(ledger.forbids(wanted("mutate", "a", 10, 0.1)).has_value());
  BOOST_TEST(!ledger.forbids(wanted("mutate", "a", 10, 0.04)));
}

BOOST_AUTO_TEST_CASE(a_server_that_asks_for_ages_is_obeyed_for_an_hour) {
  RandomStream stream = stream_of(1, "test", 0);
  const RetryRule rule;
  for (const double asked : {3601.0, 1e20, -5.0}) {
    BOOST_TEST(hold_time(rule, 1, error_of(Kind::rate_limited, asked), stream) <= 1.05 * 3600.0);
    BOOST_TEST(hold_time(rule, 1, error_of(Kind::out_of_credit, asked), stream) <= 3600.0);
    BOOST_TEST(wait_before_retry(rule, 1, error_of(Kind::overloaded, asked), stream) <= 3600.0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
