// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/gate.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "evaluators/judge/duel.hpp"

using namespace cultivar;

namespace {

// A machine on which the challenger's speed is known: times are base * exp(noise + drift - effect).
struct Machine {
  std::vector<double> effects;  // log speed of the challenger, for each workload
  double noise = 0.005;         // deviation of one sample (uniform)
  double drift = 0.0;           // log slow-down for each sample taken
  double wild_share = 0.0;      // of samples that take three times as long
  std::mt19937_64 random{1};
  double heat = 0.0;

  double uniform() { return static_cast<double>(random() >> 11) * 0x1.0p-53; }
  double time(const Slot& slot) {
    heat += drift;
    double log_time =
        std::log(1e-3 * (1 + slot.workload)) + heat + noise * std::sqrt(12.0) * (uniform() - 0.5);
    if (slot.side == Side::challenger) log_time -= effects[static_cast<std::size_t>(slot.workload)];
    if (uniform() < wild_share) log_time += std::log(3.0);
    return std::exp(log_time);
  }
};

std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back("w" + std::to_string(i));
  return result;
}

Gate play(Machine machine, GateOptions options, std::uint64_t seed, const std::vector<Pilot>& pilots = {}) {
  machine.random.seed(seed + 17);
  Gate gate(names(machine.effects.size()), options, seed, pilots);
  std::vector<double> seconds;
  while (!gate.done()) {
    seconds.clear();
    for (const Slot& slot : gate.next_order()) seconds.push_back(machine.time(slot));
    gate.add(seconds);
  }
  return gate;
}

// Pilots that say what is true, or something else.
std::vector<Pilot> pilots_of(const std::vector<double>& effects) {
  std::vector<Pilot> pilots;
  for (std::size_t w = 0; w < effects.size(); ++w) {
    const double incumbent = 1e-3 * (1.0 + static_cast<double>(w));
    const double challenger = incumbent * std::exp(-effects[w]);
    pilots.push_back({challenger, incumbent, challenger, incumbent});
  }
  return pilots;
}

int count(Verdict verdict, const Machine& machine, const GateOptions& options, int trials) {
  int found = 0;
  for (int trial = 0; trial < trials; ++trial)
    found += play(machine, options, static_cast<std::uint64_t>(trial)).verdict() == verdict;
  return found;
}

GateOptions short_duel() {
  GateOptions options;
  options.max_blocks = 150;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gate)

BOOST_AUTO_TEST_CASE(a_kernel_against_itself_is_promoted_in_less_than_one_percent_of_2000_trials) {
  GateOptions options = short_duel();
  options.min_gain = 0.0;  // the hardest case: nothing but alpha stands between noise and promotion
  BOOST_TEST(count(Verdict::better, {.effects = {0.0, 0.0, 0.0}}, options, 2000) <= 20);
  BOOST_TEST(count(Verdict::better, {.effects = {0.0, 0.0, 0.0}}, short_duel(), 500) == 0);
}

BOOST_AUTO_TEST_CASE(noise_of_a_shared_machine_does_not_promote_a_kernel_against_itself) {
  BOOST_TEST(count(Verdict::better, {.effects = {0.0}, .noise = 0.08, .wild_share = 0.03}, short_duel(),
                   1000) <= 10);
}

BOOST_AUTO_TEST_CASE(a_gain_of_one_percent_is_found_under_low_noise) {
  const double gain = std::log(1.01);
  BOOST_TEST(count(Verdict::better, {.effects = {gain, gain, gain, gain}}, short_duel(), 300) >= 285);
}

BOOST_AUTO_TEST_CASE(a_loss_of_half_a_percent_is_never_promoted_and_mostly_called_worse) {
  const double loss = -std::log(1.005);
  const Machine machine{.effects = {loss, loss, loss, loss}};
  BOOST_TEST(count(Verdict::better, machine, short_duel(), 1000) == 0);
  BOOST_TEST(count(Verdict::worse, machine, short_duel(), 200) >= 190);
}

BOOST_AUTO_TEST_CASE(a_gain_that_costs_one_workload_more_than_allowed_is_refused_with_its_name) {
  const Machine machine{.effects = {0.05, 0.05, -0.04, 0.05}};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Decision decision = play(machine, short_duel(), seed).decision();
    BOOST_TEST((decision.verdict == Verdict::worse));
    BOOST_TEST(decision.reason.find("w2 loses more than 2 %") != std::string::npos, decision.reason);
    BOOST_TEST(decision.log_ratio > 0.02);
  }
}

BOOST_AUTO_TEST_CASE(the_reason_says_how_large_a_gain_is_at_least_or_at_most) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Decision gain = play({.effects = {0.05, 0.05}}, short_duel(), seed).decision();
    BOOST_TEST((gain.verdict == Verdict::better));
    BOOST_TEST(gain.reason.find(", at least ") != std::string::npos, gain.reason);
    BOOST_TEST(gain.reason.find("% faster; no workload") != std::string::npos, gain.reason);
    const Decision none = play({.effects = {0.0, 0.0}, .noise = 0.002}, short_duel(), seed).decision();
    if (none.verdict != Verdict::worse) continue;
    const char* const said = none.upper >= 0.0 ? ", at most " : ", at least ";
    BOOST_TEST(none.reason.find(said) != std::string::npos, none.reason);
  }
}

BOOST_AUTO_TEST_CASE(a_loss_that_cannot_be_ruled_out_leaves_the_gain_undecided) {
  // The loss of w1 is exactly the limit, so it can be neither shown nor ruled out; the gain itself is plain.
  const Machine machine{.effects = {0.10, std::log1p(-0.02)}};
  int undecided = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Decision decision = play(machine, short_duel(), seed).decision();
    if (decision.verdict != Verdict::undecided) continue;
    ++undecided;
    BOOST_TEST(decision.reason.find("on w1 could not be ruled out") != std::string::npos, decision.reason);
    BOOST_TEST(decision.lower > std::log(1.005));
  }
  BOOST_TEST(undecided >= 40);
}

BOOST_AUTO_TEST_CASE(drift_shared_by_the_sides_cancels_and_shows_in_the_control) {
  // The machine slows by 0.05 % with every sample: fivefold over the duel.
  GateOptions options = short_duel();
  options.min_gain = 0.0;
  const Machine itself{.effects = {0.0, 0.0}, .drift = 0.0005};
  BOOST_TEST(count(Verdict::better, itself, options, 1000) <= 10);
  const double gain = std::log(1.01);
  int found = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Decision decision =
        play({.effects = {gain, gain}, .noise = 0.002, .drift = 0.0005}, short_duel(), seed).decision();
    found += decision.verdict == Verdict::better;
    // Half the blocks lie between the middles of the two halves; five samples a block.
    BOOST_TEST(decision.control_drift == 0.0005 * 5 * 0.5 * decision.blocks,
               boost::test_tools::tolerance(0.6));
  }
  BOOST_TEST(found >= 95);
}

BOOST_AUTO_TEST_CASE(wild_times_of_the_incumbent_do_not_promote) {
  // In every tenth block the incumbent of one workload takes a hundred times as long.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine{.effects = {0.0, 0.0}};
    machine.random.seed(seed);
    Gate gate(names(2), short_duel(), seed);
    std::vector<double> seconds;
    for (int block = 0; !gate.done(); ++block) {
      seconds.clear();
      for (const Slot& slot : gate.next_order()) {
        seconds.push_back(machine.time(slot));
        if (slot == Slot{0, Side::incumbent} && block % 10 == 5) seconds.back() *= 100.0;
      }
      gate.add(seconds);
    }
    BOOST_TEST((gate.verdict() != Verdict::better));
  }
}

BOOST_AUTO_TEST_CASE(one_seed_and_one_set_of_times_give_one_decision) {
  const Machine machine{.effects = {0.01, 0.012}};
  const nlohmann::json first = play(machine, short_duel(), 3).decision();
  const nlohmann::json again = play(machine, short_duel(), 3).decision();
  const nlohmann::json other = play(machine, short_duel(), 4).decision();
  BOOST_TEST(first.dump() == again.dump());
  BOOST_TEST(first.dump() != other.dump());
}

BOOST_AUTO_TEST_CASE(each_block_times_both_sides_of_each_workload_next_to_each_other_and_the_control_once) {
  Gate gate(names(5), short_duel(), 9);
  int challenger_first = 0, blocks = 0;
  bool orders_differ = false;
  std::vector<Slot> before;
  for (; !gate.done() && blocks < 100; ++blocks) {
    const std::vector<Slot> order = gate.next_order();
    BOOST_REQUIRE(order.size() == 11u);
    BOOST_TEST((gate.next_order() == order));
    orders_differ = orders_differ || (!before.empty() && before != order);
    before = order;
    int controls = 0;
    std::vector<int> seen(5, 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].side == Side::control) {
        ++controls;
        continue;
      }
      BOOST_REQUIRE(i + 1 < order.size());
      BOOST_TEST(order[i].workload == order[i + 1].workload);
      BOOST_TEST((order[i].side != order[i + 1].side));
      BOOST_TEST((order[i + 1].side != Side::control));
      ++seen[static_cast<std::size_t>(order[i].workload)];
      challenger_first += order[i].side == Side::challenger;
      ++i;
    }
    BOOST_TEST(controls == 1);
    BOOST_TEST(std::count(seen.begin(), seen.end(), 1) == 5);
    // A gain of exactly min_gain, so that it goes on.
    std::vector<double> seconds;
    for (const Slot& slot : order)
      seconds.push_back((slot.side == Side::challenger ? 1e-3 / 1.005 : 1e-3) * (blocks % 2 ? 1.0 : 1.01));
    gate.add(seconds);
  }
  BOOST_TEST(orders_differ);
  BOOST_TEST(blocks == 100);
  BOOST_TEST(challenger_first > 200);
  BOOST_TEST(challenger_first < 300);
}

BOOST_AUTO_TEST_CASE(device_time_and_block_caps_end_a_duel_that_nothing_decides) {
  const double edge = std::log(1.005);
  GateOptions options;
  options.max_device_seconds = 0.1;  // a block of one 1 ms workload takes 3 ms
  const Decision by_time = play({.effects = {edge}, .noise = 0.02}, options, 1).decision();
  BOOST_TEST((by_time.verdict == Verdict::undecided));
  BOOST_TEST(by_time.device_seconds == 0.1, boost::test_tools::tolerance(0.05));
  options.max_device_seconds = 10.0;
  options.max_blocks = 12;
  BOOST_TEST(play({.effects = {edge}, .noise = 0.02}, options, 1).decision().blocks == 12);
}

BOOST_AUTO_TEST_CASE(the_interval_of_a_better_verdict_clears_the_gain) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Decision decision = play({.effects = {0.03, 0.02}}, short_duel(), seed).decision();
    BOOST_TEST((decision.verdict == Verdict::better));
    BOOST_TEST(decision.lower >= std::log(1.005));
    BOOST_TEST(decision.upper > decision.log_ratio);
    BOOST_TEST(decision.log_ratio == 0.025, boost::test_tools::tolerance(0.3));
    BOOST_REQUIRE(decision.workloads.size() == 2u);
    BOOST_TEST(decision.workloads[0].lower > std::log1p(-0.02));
    BOOST_TEST(decision.workloads[0].lower < decision.workloads[0].log_ratio);
  }
}

BOOST_AUTO_TEST_CASE(blocks_of_the_wrong_size_or_with_impossible_times_are_refused_and_change_nothing) {
  Gate gate(names(2), short_duel(), 1);
  const std::vector<Slot> order = gate.next_order();
  std::vector<double> seconds(order.size(), 1.0);
  BOOST_CHECK_THROW(gate.add(std::vector<double>(order.size() - 1, 1.0)), std::invalid_argument);
  BOOST_CHECK_THROW(gate.add(std::vector<double>(order.size() + 1, 1.0)), std::invalid_argument);
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    seconds[1] = bad;
    BOOST_CHECK_THROW(gate.add(seconds), std::invalid_argument);
  }
  seconds[1] = 1.0;
  BOOST_CHECK_THROW(gate.add(seconds, std::nan("")), std::invalid_argument);
  BOOST_TEST(gate.decision().blocks == 0);
  BOOST_TEST((gate.next_order() == order));
}

BOOST_AUTO_TEST_CASE(a_block_after_the_decision_is_a_bug) {
  Gate gate = play({.effects = {0.05}}, short_duel(), 1);
  const std::vector<double> seconds(gate.next_order().size(), 1.0);
  BOOST_CHECK_THROW(gate.add(seconds), std::logic_error);
}

BOOST_AUTO_TEST_CASE(options_that_make_no_sense_are_refused) {
  const auto refused = [](const std::function<void(GateOptions&)>& spoil) {
    GateOptions options;
    spoil(options);
    BOOST_CHECK_THROW(Gate(names(1), options, 1), std::invalid_argument);
  };
  refused([](GateOptions& o) { o.alpha = 0.0; });
  refused([](GateOptions& o) { o.min_gain = -0.1; });
  refused([](GateOptions& o) { o.max_workload_loss = 0.0; });
  refused([](GateOptions& o) { o.max_blocks = o.min_blocks - 1; });
  refused([](GateOptions& o) { o.max_device_seconds = 0.0; });
  BOOST_CHECK_THROW(Gate({}, GateOptions{}, 1), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_decision_survives_json_with_its_infinite_bounds) {
  Gate fresh(names(2), short_duel(), 1);
  for (const Decision& decision :
       {fresh.decision(), play({.effects = {0.02, 0.03}}, short_duel(), 2).decision()}) {
    const nlohmann::json json = decision;
    const auto back = nlohmann::json::parse(json.dump()).get<Decision>();
    BOOST_TEST(nlohmann::json(back).dump() == json.dump());
    BOOST_TEST(back.lower == decision.lower);
    BOOST_TEST((back.verdict == decision.verdict));
  }
}

BOOST_AUTO_TEST_CASE(a_large_gain_is_shown_by_few_runs_in_random_order) {
  for (const double factor : {1.3, 2.0, 10.0, 100.0})
    for (const double alpha : {0.005, 1e-6}) {
      GateOptions options = short_duel();
      options.alpha = alpha;
      const double effect = std::log(factor);
      const Machine machine{.effects = {effect, effect}, .noise = 0.03};
      int decided = 0;
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Decision d = play(machine, options, seed, pilots_of(machine.effects)).decision();
        BOOST_TEST((d.verdict == Verdict::better), d.reason);
        decided += d.blocks == 0;
        if (d.blocks > 0) continue;
        BOOST_TEST(d.batches == 1);
        BOOST_TEST(d.lower > std::log(1.005));
        BOOST_TEST(d.lower < effect);
        BOOST_TEST(d.upper > effect);
        BOOST_TEST(d.log_ratio == effect, boost::test_tools::tolerance(0.2));
        BOOST_TEST(d.reason.find("runs in random order") != std::string::npos, d.reason);
      }
      BOOST_TEST(decided >= 19);
    }
}

BOOST_AUTO_TEST_CASE(the_slow_side_runs_less_often) {
  GateOptions options;
  options.alpha = 1e-6;
  for (const double factor : {10.0, 100.0}) {
    // A run of the incumbent takes a second: no batch is enlarged because it is short.
    const Gate gate(names(1), options, 3, {{1.0 / factor, 1.0, 1.0 / factor, 1.0}});
    BOOST_REQUIRE(gate.in_batch());
    const auto incumbent = std::ranges::count(gate.next_order(), Side::incumbent, &Slot::side);
    const auto challenger = std::ranges::count(gate.next_order(), Side::challenger, &Slot::side);
    BOOST_TEST(incumbent <= 6);
    BOOST_TEST(challenger >= 4 * incumbent);
    BOOST_TEST(std::ranges::count(gate.next_order(), Side::control, &Slot::side) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_plain_loss_ends_at_once) {
  const Machine machine{.effects = {-0.3, -0.2}, .noise = 0.02};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Decision d = play(machine, short_duel(), seed, pilots_of(machine.effects)).decision();
    BOOST_TEST((d.verdict == Verdict::worse));
    BOOST_TEST(d.blocks == 0);
    BOOST_TEST(d.upper < 0.0);
    BOOST_TEST(d.reason.find(", at least ") != std::string::npos, d.reason);
    BOOST_TEST(d.reason.find("% slower: a gain of") != std::string::npos, d.reason);
    BOOST_TEST(d.reason.find("at most") == std::string::npos, d.reason);
  }
}

BOOST_AUTO_TEST_CASE(a_plain_loss_on_one_workload_is_no_gain_however_large_the_others_are) {
  const Machine machine{.effects = {0.5, 0.5, -0.05}, .noise = 0.005};
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const auto& said : {pilots_of(machine.effects), pilots_of({0.5, 0.5, 0.5})}) {
      const Decision d = play(machine, short_duel(), seed, said).decision();
      BOOST_TEST((d.verdict == Verdict::worse));
      BOOST_TEST(d.reason.find("w2 loses more than 2 %") != std::string::npos, d.reason);
    }
}

BOOST_AUTO_TEST_CASE(pilots_that_promise_too_much_do_not_promote) {
  GateOptions options = short_duel();
  options.min_gain = 0.0;
  options.max_blocks = 40;
  options.alpha = 0.04;
  const auto promoted = [&](const Machine& machine, int trials) {
    int better = 0;
    for (int seed = 0; seed < trials; ++seed)
      better += play(machine, options, static_cast<std::uint64_t>(seed),
                     pilots_of(std::vector<double>(machine.effects.size(), 0.3)))
                    .verdict() == Verdict::better;
    return better;
  };
  // 0.04 of 2000 is 80; the batches alone have half of it.
  BOOST_TEST(promoted({.effects = {0.0}}, 2000) <= 80 + 25);
  BOOST_TEST(promoted({.effects = {0.0}, .noise = 0.1, .wild_share = 0.05}, 1000) <= 40 + 18);
  BOOST_TEST(promoted({.effects = {0.0}, .drift = 0.01}, 1000) <= 40 + 18);
  BOOST_TEST(promoted({.effects = {-0.005}}, 1000) <= 10);
}

BOOST_AUTO_TEST_CASE(pilots_that_promise_little_leave_all_to_the_pairs) {
  const Machine machine{.effects = {0.01, 0.01}};
  const nlohmann::json without = play(machine, short_duel(), 5).decision();
  const nlohmann::json with = play(machine, short_duel(), 5, pilots_of({0.01, 0.02})).decision();
  BOOST_TEST(with.dump() == without.dump());
  BOOST_TEST(play(machine, short_duel(), 5, pilots_of({0.2, -0.1})).decision().batches == 0);
}

BOOST_AUTO_TEST_CASE(beyond_the_time_limit_the_blocks_that_the_test_needs_are_run) {
  GateOptions options;
  options.max_device_seconds = 1e-4;  // less than one block
  options.alpha = 1e-5;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Gate gate = play({.effects = {2.0}, .noise = 0.02}, options, seed);
    BOOST_TEST((gate.verdict() == Verdict::better));
    BOOST_TEST(gate.decision().blocks <= gate.least_blocks());
    // Where nothing can be shown any more, it ends.
    const Gate none = play({.effects = {-0.2}, .noise = 0.02}, options, seed);
    BOOST_TEST(none.decision().blocks <= 4);
    BOOST_TEST(play({.effects = {0.0}, .noise = 0.02}, options, seed).decision().blocks < 40);
  }
}

BOOST_AUTO_TEST_CASE(within_the_limit_nothing_begins_that_would_exceed_it_except_the_first_block) {
  GateOptions options;
  options.within_limit = true;
  for (const double effect : {0.005, 2.0})
    for (const bool with_pilots : {false, true}) {
      const Machine machine{.effects = {effect, effect}, .noise = 0.02};
      const auto pilots = with_pilots ? pilots_of(machine.effects) : std::vector<Pilot>();
      options.max_device_seconds = 1e-4;  // less than one block
      const Decision least = play(machine, options, 1, pilots).decision();
      BOOST_TEST(least.blocks == 1);
      BOOST_TEST(least.batches == 0);
      for (const double limit : {0.05, 0.2}) {
        options.max_device_seconds = limit;
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          const Decision decision = play(machine, options, seed, pilots).decision();
          BOOST_TEST(decision.device_seconds <= limit * 1.05);  // blocks differ by the noise
          if (decision.verdict == Verdict::undecided) BOOST_TEST(decision.device_seconds >= 0.7 * limit);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(a_duel_that_goes_on_is_the_one_that_had_more_time) {
  const Machine machine{.effects = {0.012, 0.012}, .noise = 0.02};
  GateOptions little, much;
  little.max_device_seconds = 0.4;
  much.max_device_seconds = 10.0;
  int open = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Machine first = machine;
    first.random.seed(seed + 17);
    Gate begun(names(2), little, seed);
    std::vector<std::vector<double>> blocks;
    while (!begun.done()) {
      blocks.emplace_back();
      for (const Slot& slot : begun.next_order()) blocks.back().push_back(first.time(slot));
      begun.add(blocks.back());
    }
    if (!begun.may_go_on()) continue;
    ++open;
    Gate on(names(2), much, seed);
    for (const auto& block : blocks) on.add(block);
    BOOST_TEST(!on.done());
    while (!on.done()) {
      std::vector<double> seconds;
      for (const Slot& slot : on.next_order()) seconds.push_back(first.time(slot));
      on.add(seconds);
    }
    const nlohmann::json whole = play(machine, much, seed).decision();
    BOOST_TEST(nlohmann::json(on.decision()).dump() == whole.dump());
  }
  BOOST_TEST(open >= 3);
}

BOOST_AUTO_TEST_CASE(a_control_that_is_slower_than_both_sides_together_is_timed_less_often) {
  Gate gate(names(1), short_duel(), 9);
  int controls = 0;
  for (int block = 0; block < 60 && !gate.done(); ++block) {
    std::vector<double> seconds;
    for (const Slot& slot : gate.next_order()) {
      controls += slot.side == Side::control;
      seconds.push_back((slot.side == Side::control ? 0.1 : 1e-3) * (block % 2 ? 1.0 : 1.01));
    }
    gate.add(seconds);
  }
  BOOST_TEST(gate.decision().blocks >= 8);
  BOOST_TEST(controls <= 2);
}

BOOST_AUTO_TEST_CASE(pilots_of_the_wrong_number_or_without_times_are_refused) {
  BOOST_CHECK_THROW(Gate(names(2), {}, 1, {{1.0, 1.0, 1.0, 1.0}}), std::invalid_argument);
  BOOST_CHECK_THROW(Gate(names(1), {}, 1, {{1.0, 0.0, 1.0, 1.0}}), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_duel_beyond_its_limit_says_why_it_goes_on) {
  BOOST_TEST(duel_words("5 of at most 2000 pairs", 3.14, 10.0) == "5 of at most 2000 pairs, 3.1 of 10 s");
  const std::string beyond = duel_words("5 of at most 2000 pairs", 26.0, 10.0);
  BOOST_TEST(beyond == "5 of at most 2000 pairs, 26.0 s (beyond its 10 s while it can still show a gain)");
  BOOST_TEST(beyond.size() < 100U);  // of which the progress line shows no more
}

BOOST_AUTO_TEST_CASE(the_times_of_a_duel_survive_json) {
  const DuelTimes times{{{0.1, 0.2, 0.3, 0.4}}, {{{0.5, 0.25}, 1.5}, {{0.125}, 2.0}}};
  const auto back = nlohmann::json::parse(nlohmann::json(times).dump()).get<DuelTimes>();
  BOOST_TEST(nlohmann::json(back).dump() == nlohmann::json(times).dump());
  BOOST_TEST(back.blocks.at(0).seconds.at(1) == 0.25);
  BOOST_TEST(back.blocks.at(1).device_seconds == 2.0);
}

BOOST_AUTO_TEST_SUITE_END()
