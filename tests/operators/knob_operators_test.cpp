// SPDX-License-Identifier: Apache-2.0
// The operators that search without a model, on the knobs of a softmax source.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "operators/crossover_knobs.hpp"
#include "operators/portfolio.hpp"
#include "operators/registry.hpp"
#include "operators/tune.hpp"

using namespace cultivar;

namespace {

std::string source(const std::string& name, const std::string& tunables) {
  return "/*--- cultivar\nname: " + name +
         "\ntask: softmax\ntarget: cpu\nrequires: \"dtype == f32\"\ntunables:\n" + tunables +
         "constraints: [\"A * B <= 32\"]\nlaunch:\n  - kernel: softmax\n    threads: 1\n    args: [x, y, R, "
         "C]\n---*/\n"
         "extern \"C\" void softmax(const float*, float*, int, int) {}\n";
}

const std::string kFirst = source("first",
                                  "  A: {values: [1, 2, 4, 8, 16], default: 1}\n"
                                  "  B: {values: [1, 2, 4, 8], default: 1}\n"
                                  "  L: {values: [x, y], default: x}\n");
const std::string kSecond =
    source("second", "  A: {values: [2, 4, 32], default: 2}\n  B: {values: [1, 8], default: 1}\n");

struct Observed {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  Facts facts{{"num_cores", 4.0}};
  Archive archive;
  std::map<std::string, std::string> sources;
  std::function<std::string(const std::string&)> source_of = [this](const std::string& id) {
    return sources.at(id);
  };

  IndividualId add(const std::string& text, Configuration configuration) {
    const Variant variant = make_variant(text, task, std::move(configuration)).value();
    sources[variant.source_id] = text;
    Individual individual;
    individual.id = archive.size() + 1;
    individual.variant_id = variant.id;
    individual.source_id = variant.source_id;
    individual.configuration = variant.configuration;
    individual.descent.origin = Origin::seed;
    archive.add(individual);
    return individual.id;
  }
  IndividualId add_measured(const std::string& text, Configuration configuration, double fitness) {
    const IndividualId id = add(text, std::move(configuration));
    archive.judge(id, true, fitness);
    return id;
  }
  OperatorContext around(std::vector<IndividualId> parents) {
    return {task, workloads, facts, archive, source_of, 0, std::move(parents)};
  }
};

std::int64_t number(const Configuration& configuration, const char* name) {
  return std::get<std::int64_t>(configuration.find(name)->second);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(knob_operators)

BOOST_AUTO_TEST_CASE(tuning_walks_the_whole_space_once_and_then_says_that_it_is_exhausted) {
  Observed context;
  TuneOperator tune(1);
  const IndividualId seed = context.add_measured(kFirst, {}, 1.0);
  tune.observe(seed, context.archive);
  std::set<Configuration> seen{context.archive.member(seed).configuration};
  RandomStream stream = stream_of(1, "test", 0);
  while (const auto proposal = tune.propose(context.around({seed}), stream)) {
    BOOST_TEST(number(proposal->configuration, "A") * number(proposal->configuration, "B") <= 32);
    BOOST_REQUIRE(seen.insert(proposal->configuration).second);
    BOOST_TEST((proposal->descent.parents == std::vector<IndividualId>{seed}));
    const IndividualId id = context.add(proposal->source, proposal->configuration);
    // Every third fails; every other one stays in flight for a while.
    if (id % 3 == 0)
      context.archive.judge(id, false, 0.0);
    else
      context.archive.judge(id, true, static_cast<double>(number(proposal->configuration, "A")));
    tune.observe(id, context.archive);
    BOOST_REQUIRE_LE(seen.size(), 40);
  }
  // 5 x 4 x 2 points less those with A * B > 32: (8, 8), (16, 4), (16, 8), each with two layouts.
  BOOST_TEST(seen.size() == 34);
}

BOOST_AUTO_TEST_CASE(tuning_never_proposes_what_is_in_flight) {
  Observed context;
  TuneOperator tune(1);
  const IndividualId seed = context.add_measured(kFirst, {}, 1.0);
  tune.observe(seed, context.archive);
  std::set<Configuration> seen{context.archive.member(seed).configuration};
  RandomStream stream = stream_of(1, "test", 0);
  for (int i = 0; i < 20; ++i) {
    const auto proposal = tune.propose(context.around({seed}), stream);
    BOOST_REQUIRE(proposal);
    BOOST_REQUIRE(seen.insert(proposal->configuration).second);
    context.add(proposal->source, proposal->configuration);
  }
}

BOOST_AUTO_TEST_CASE(tuning_continues_with_another_source_when_the_parent_has_no_knobs) {
  Observed context;
  TuneOperator tune(1);
  std::string plain = source("plain", "  A: {values: [1], default: 1}\n  B: {values: [1], default: 1}\n");
  const IndividualId stiff = context.add_measured(plain, {}, 5.0),
                     soft = context.add_measured(kFirst, {}, 1.0);
  tune.observe(stiff, context.archive);
  tune.observe(soft, context.archive);
  RandomStream stream = stream_of(1, "test", 0);
  const auto proposal = tune.propose(context.around({stiff}), stream);
  BOOST_REQUIRE(proposal);
  BOOST_TEST((proposal->descent.parents == std::vector<IndividualId>{soft}));
}

BOOST_AUTO_TEST_CASE(a_tuner_rebuilt_from_its_observations_proposes_the_same) {
  Observed context;
  TuneOperator live(1);
  RandomStream stream = stream_of(1, "test", 0);
  const IndividualId seed = context.add_measured(kFirst, {}, 1.0);
  live.observe(seed, context.archive);
  for (int i = 0; i < 15; ++i) {
    const auto proposal = live.propose(context.around({seed}), stream);
    BOOST_REQUIRE(proposal);
    const IndividualId id =
        context.add_measured(proposal->source, proposal->configuration,
                             1.0 + static_cast<double>(number(proposal->configuration, "B")));
    live.observe(id, context.archive);
  }
  TuneOperator rebuilt(1);
  for (IndividualId id = 1; id <= context.archive.size(); ++id) rebuilt.observe(id, context.archive);
  const auto a = live.propose(context.around({seed}), stream),
             b = rebuilt.propose(context.around({seed}), stream);
  BOOST_REQUIRE(a);
  BOOST_REQUIRE(b);
  BOOST_TEST((a->configuration == b->configuration));
}

BOOST_AUTO_TEST_CASE(a_child_has_values_of_both_parents_and_keeps_the_constraints) {
  Observed context;
  CrossoverKnobs crossover;
  const IndividualId a = context.add_measured(kFirst, {{"A", std::int64_t{16}}, {"B", std::int64_t{2}}}, 3.0);
  const IndividualId b = context.add_measured(
      kFirst, {{"A", std::int64_t{4}}, {"B", std::int64_t{8}}, {"L", std::string("y")}}, 2.0);
  std::set<Configuration> children;
  for (std::uint64_t step = 0; step < 100; ++step) {
    RandomStream stream = stream_of(1, "test", step);
    const auto child = crossover.propose(context.around({a, b}), stream);
    if (!child) continue;  // (16, 8) breaks the constraint and may be repaired back to the parent
    const std::int64_t A = number(child->configuration, "A"), B = number(child->configuration, "B");
    BOOST_TEST((A == 16 || A == 4));
    BOOST_TEST((B == 2 || B == 8));
    BOOST_TEST(A * B <= 32);
    BOOST_TEST((child->configuration != context.archive.member(a).configuration));
    children.insert(child->configuration);
  }
  BOOST_TEST(children.size() >= 4);
}

// B makes no difference: a source whose kernels are the same for all of its values.
BOOST_AUTO_TEST_CASE(values_that_gave_the_same_kernel_are_not_tried_again) {
  Observed context;
  TuneOperator tune(1);
  CrossoverKnobs crossover;
  RandomStream stream = stream_of(1, "test", 0);
  std::map<std::int64_t, IndividualId> kernels;  // by A and L
  const auto observe = [&](IndividualId id) {
    const Configuration& c = context.archive.member(id).configuration;
    const bool x = std::get<std::string>(c.find("L")->second) == "x";
    const auto [first, fresh] = kernels.try_emplace(2 * number(c, "A") + (x ? 1 : 0), id);
    context.archive.judge(id, true, static_cast<double>(number(c, "A")), fresh ? 0 : first->second);
    tune.observe(id, context.archive);
    crossover.observe(id, context.archive);
    return fresh;
  };
  const IndividualId seed = context.add(kFirst, {});
  BOOST_TEST(observe(seed));
  int repeated = 0;
  for (int i = 0; i < 16; ++i) {
    const auto proposal = tune.propose(context.around({seed}), stream);
    BOOST_REQUIRE(proposal);
    repeated += observe(context.add(proposal->source, proposal->configuration)) ? 0 : 1;
  }
  BOOST_TEST(kernels.size() == 10U);  // 5 values of A, two of L
  BOOST_TEST(repeated <= 8);
  // Of these two, B alone is left to mix.
  const IndividualId one = kernels.at(2 * 4 + 1), other = kernels.at(2 * 4);
  Configuration twin = context.archive.member(one).configuration;
  twin.insert_or_assign("B", number(twin, "B") == 1 ? std::int64_t{2} : std::int64_t{1});
  const IndividualId again = context.add(kFirst, twin);
  (void)observe(again);
  BOOST_TEST(!crossover.propose(context.around({one, again}), stream));
  BOOST_TEST(CrossoverKnobs(false).propose(context.around({one, again}), stream).has_value());
  BOOST_TEST(!crossover.propose(context.around({one, other}), stream));  // both are known
}

BOOST_AUTO_TEST_CASE(parents_of_different_sources_mix_what_they_share) {
  Observed context;
  CrossoverKnobs crossover;
  const IndividualId a = context.add_measured(kFirst, {}, 3.0);
  const IndividualId b = context.add_measured(kSecond, {{"A", std::int64_t{4}}, {"B", std::int64_t{8}}}, 2.0);
  bool mixed = false;
  for (std::uint64_t step = 0; step < 20; ++step) {
    RandomStream stream = stream_of(1, "test", step);
    const auto child = crossover.propose(context.around({a, b}), stream);
    BOOST_REQUIRE(child);
    BOOST_TEST(child->source == kFirst);
    BOOST_TEST(child->configuration.contains("L"));
    mixed = mixed || (number(child->configuration, "A") == 4 && number(child->configuration, "B") == 8);
  }
  BOOST_TEST(mixed);
}

BOOST_AUTO_TEST_CASE(a_new_line_takes_all_settings_that_it_can) {
  Observed context;
  CrossoverKnobs crossover;
  const IndividualId a = context.add_measured(kFirst, {}, 1.0);
  const IndividualId b = context.add_measured(kSecond, {{"A", std::int64_t{4}}, {"B", std::int64_t{8}}}, 2.0);
  for (std::uint64_t step = 0; step < 20; ++step) {
    RandomStream stream = stream_of(1, "test", step);
    auto around = context.around({a, b});
    around.all_settings = true;
    const auto child = crossover.propose(around, stream);
    BOOST_REQUIRE(child);
    BOOST_TEST(number(child->configuration, "A") == 4);
    BOOST_TEST(number(child->configuration, "B") == 8);
  }
}

BOOST_AUTO_TEST_CASE(parents_that_agree_in_everything_have_no_child) {
  Observed context;
  CrossoverKnobs crossover;
  const IndividualId a = context.add_measured(kFirst, {{"A", std::int64_t{2}}}, 3.0);
  const IndividualId b = context.add_measured(kSecond, {{"A", std::int64_t{2}}}, 2.0);
  RandomStream stream = stream_of(1, "test", 0);
  BOOST_TEST(!crossover.propose(context.around({a, b}), stream));
}

BOOST_AUTO_TEST_CASE(the_portfolio_asks_by_weight_and_everybody_once) {
  std::vector<Portfolio::Share> shares;
  shares.push_back({make_operator("tune", {1}), 3.0});
  shares.push_back({make_operator("crossover_knobs", {1}), 1.0});
  const Portfolio portfolio(std::move(shares));
  int tune_first = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    RandomStream stream = stream_of(1, "test", step);
    const auto order = portfolio.order(stream);
    BOOST_REQUIRE_EQUAL(order.size(), 2);
    BOOST_TEST(order[0] != order[1]);
    tune_first += order[0]->op->name() == "tune";
  }
  BOOST_TEST(tune_first > 700);
  BOOST_TEST(tune_first < 800);
  BOOST_CHECK_THROW(make_operator("tone", {1}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
