// SPDX-License-Identifier: Apache-2.0
// Comparisons on their own: who is confirmed, who must win a duel first, and how fast the incumbent is now.
#include "engine/search/comparisons.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <thread>

#include "engine/history/rebuild.hpp"
#include "engine/store/record_kernels.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "support/contains.hpp"
#include "support/search_parts.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Parts : SearchParts {
  explicit Parts(const Simulation& simulation = {}, const std::vector<std::string>& overrides = {})
      : SearchParts(simulation, overrides),
        evaluations(config, recorder, breeding, sources, pipeline, second_tries, faults),
        comparisons(config, evaluator, recorder, breeding, sources, pipeline, second_tries, faults, {}) {
    for (const IndividualId id : proposals.seeds({})) evaluations.enqueue(id);
    evaluations.start_pending();
    work();
  }

  void work() {
    drain([&](const JobPtr& job) {
      std::visit(Overloaded{[&](Evaluate& work) {
                              comparisons.pace().beside(work);
                              evaluations.returned(job, work, comparisons.pace().medians_us());
                              comparisons.watch_duel();
                            },
                            [&](Pace& work) { comparisons.pace().returned(job, work); },
                            [&](Duel& work) { outcome = comparisons.returned(job, work); },
                            [&](Confirm& work) { outcome = comparisons.returned(job, work); },
                            [](auto&) { BOOST_FAIL("nothing else is out"); }},
                 job->work);
    });
  }
  void compare() {
    comparisons.start();
    work();
  }
  IndividualId add(const std::string& name, const Configuration& knobs = {}) {
    const IndividualId id = begin(name, knobs);
    work();
    return id;
  }
  IndividualId begin(const std::string& name, const Configuration& knobs) {
    const std::string source = softmax_source(name);
    NewProposal bred{{source, knobs, {}}, sources.variant(source, knobs), "stream"};
    bred.proposal.descent.parents = {1};
    bred.proposal.descent.op = "tune";
    const IndividualId id = proposals.bred(bred, std::nullopt);
    evaluations.start(id, bred.variant);
    return id;
  }

  Evaluations evaluations;
  Comparisons comparisons;
  Comparisons::Outcome outcome;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(comparisons)

BOOST_AUTO_TEST_CASE(the_fittest_seed_is_confirmed_without_a_duel) {
  Parts parts;
  BOOST_TEST(parts.comparisons.due());
  parts.compare();
  BOOST_TEST(parts.outcome.promoted == 2);  // softmax_fast
  BOOST_TEST(parts.breeding.incumbent() == 2);
  BOOST_TEST(parts.writer.record().duels().empty());
  BOOST_TEST(!parts.comparisons.due());
  BOOST_TEST(parts.comparisons.pace().medians_us().size() == parts.breeding.workloads().size());
}

BOOST_AUTO_TEST_CASE(whoever_is_faster_wins_a_duel_at_its_share_of_alpha_and_is_confirmed_then) {
  Parts parts;
  parts.compare();
  const IndividualId better = parts.add("softmax_fastest");
  parts.compare();
  BOOST_TEST(parts.outcome.promoted == 0);
  BOOST_TEST(parts.breeding.winner() == better);
  const auto duels = parts.writer.record().duels();
  BOOST_REQUIRE(duels.size() == 1U);
  BOOST_TEST((duels[0].verdict == Verdict::better));
  const AlphaLedger ledger(parts.config.gate_alpha);
  const double alpha = duels[0].report.at("decision").value("alpha", ledger.share(1));
  BOOST_TEST(alpha == ledger.share(1), boost::test_tools::tolerance(1e-9));
  parts.compare();
  BOOST_TEST(parts.outcome.promoted == better);
  BOOST_TEST(parts.events("promoted").size() == 2U);
}

BOOST_AUTO_TEST_CASE(the_first_confirmation_is_of_a_much_faster_kernel_that_was_measured_while_it_compiled) {
  for (const std::string name : {"softmax_slow", "softmax_fastest"}) {
    Parts parts;
    parts.comparisons.start();
    const JobPtr job = parts.pipeline.next(Clock::now() + std::chrono::seconds(60));
    BOOST_REQUIRE(job);
    BOOST_TEST(job->id == 2);  // softmax_fast
    const IndividualId other = parts.add(name, {{"LAYOUT", std::string("packed")}});
    parts.outcome = parts.comparisons.returned(job, std::get<Confirm>(job->work));
    BOOST_TEST(parts.comparisons.in_flight() == (name == "softmax_slow"));
    parts.compare();
    BOOST_TEST(parts.outcome.promoted == (name == "softmax_slow" ? 2 : other));
  }
}

// Until it is no longer needed, or for half a minute.
void wait_in_fourth_block(const GateRequest& request, int blocks) {
  for (int i = 0; blocks == 4 && i < 3000 && !*request.enough; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

BOOST_AUTO_TEST_CASE(a_duel_whose_sides_are_overtaken_ends_and_the_faster_kernel_is_compared_first) {
  Simulation simulation;
  simulation.noise = 0.0;
  simulation.device_workers = 2;
  simulation.on_block = wait_in_fourth_block;
  Parts parts(simulation);
  parts.compare();
  const IndividualId first = parts.breeding.incumbent(), challenger = parts.add("softmax_fastest");
  parts.comparisons.start();
  const IndividualId faster = parts.begin("softmax_fastest", {{"LAYOUT", std::string("packed")}});
  parts.work();
  const auto duels = parts.writer.record().duels();
  BOOST_REQUIRE(duels.size() == 1U);
  BOOST_TEST(duels[0].challenger == challenger);
  BOOST_TEST((duels[0].verdict == Verdict::undecided));
  BOOST_TEST(duels[0].report.at("decision").at("blocks") == 4);
  const std::string told = parts.events("duel").back().text;
  BOOST_TEST(contains(told, fmt::format("#{} is faster than both", faster)), told);
  BOOST_TEST(parts.breeding.challenger().value_or(0) == faster);
  // A replay ends with the same challengers, of which the one that was left may go on.
  Breeding again(parts.config, parts.evaluator.devices()->front().facts, parts.sources);
  Listener nobody;
  apply_decisions(parts.writer.record(), again, nobody);
  BOOST_TEST(again.incumbent() == first);
  BOOST_TEST(again.challenger().value_or(0) == faster);
  BOOST_TEST(again.challengers() == 2U);
  BOOST_TEST(parts.breeding.challengers() == 2U);
}

BOOST_AUTO_TEST_CASE(a_duel_goes_on_beside_a_kernel_that_may_be_faster_by_noise_alone) {
  Simulation simulation;
  simulation.noise = 0.0;
  simulation.device_workers = 2;
  Parts parts(simulation);
  parts.compare();
  const IndividualId challenger = parts.add("softmax_fastest");
  parts.comparisons.start();
  parts.begin("softmax_fastest_too", {});  // as fast
  parts.work();
  BOOST_TEST(parts.breeding.winner() == challenger);
}

BOOST_AUTO_TEST_CASE(the_challenger_whose_measurement_is_surely_high_goes_first) {
  Simulation simulation;
  simulation.noise = 0.0;
  simulation.spread_of = [](const Variant& variant) {
    return variant.manifest.name == "softmax_fastest_unsure" ? 0.3 : 0.02;
  };
  for (const std::string rules : {"9", "10"}) {
    Parts parts(simulation, {"rules=" + rules});
    parts.compare();
    const IndividualId sure = parts.add("softmax_fast_sure", {{"THREADS", std::int64_t{2}}});
    const IndividualId unsure = parts.add("softmax_fastest_unsure", {{"THREADS", std::int64_t{2}}});
    const IndividualId expected = rules == "10" ? sure : unsure;
    BOOST_TEST(parts.breeding.challenger().value_or(0) == expected, rules);
    Breeding again(parts.config, parts.evaluator.devices()->front().facts, parts.sources);
    Listener nobody;
    apply_decisions(parts.writer.record(), again, nobody);
    BOOST_TEST(again.challenger().value_or(0) == expected, rules);
  }
}

BOOST_AUTO_TEST_CASE(a_measurement_counts_at_the_pace_of_its_time_for_everybody) {
  Parts parts;
  parts.compare();
  const IndividualId first = parts.breeding.incumbent();
  parts.breeding.paced(1.25);
  parts.recorder.step([&](Step& step) { step.pace(first, 1.0, 1.25); });
  const IndividualId later = parts.add("softmax_fastest");
  const Record& record = parts.writer.record();
  Standings standings(record);
  const double at_first = parts.breeding.archive().fitness(later);
  BOOST_TEST(record.individual(later)->individual.fitness == 1.25 * at_first,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(standings.fitness(later) == at_first);
  BOOST_TEST(standings.fitness(*record.individual(later)) == at_first);
  BOOST_TEST(standings.fitness(first) == parts.breeding.archive().fitness(first));
}

BOOST_AUTO_TEST_CASE(on_a_shared_host_kernels_are_judged_beside_the_incumbent) {
  Simulation simulation;
  simulation.noise = 0.0;
  simulation.load = 8.0;
  Parts parts(simulation);
  parts.compare();
  const IndividualId first = parts.breeding.incumbent();
  const Archive& archive = parts.breeding.archive();
  const auto true_speed = [&](const std::string& name) {
    return true_fitness(**parts.sources.variant(softmax_source(name)));
  };
  // The seeds had no incumbent beside them: it may be either.
  const double speed = true_fitness(**parts.sources.recorded(archive.member(first)));
  for (const std::string name : {"softmax_one", "softmax_two_fast", "softmax_three_fastest"}) {
    const IndividualId id = parts.add(name);
    BOOST_TEST(archive.fitness(id) / archive.fitness(first) == true_speed(name) / speed,
               boost::test_tools::tolerance(1e-9));
    BOOST_TEST(Standings(parts.writer.record()).fitness(id) == archive.fitness(id),
               boost::test_tools::tolerance(1e-9));
  }
  BOOST_TEST(parts.comparisons.due());  // the last one is faster
}

BOOST_AUTO_TEST_CASE(the_result_of_a_duel_becomes_the_fitness_for_everybody) {
  Simulation simulation;
  simulation.noise = 0.05;  // a measurement is up to 5 % wrong; a duel has many runs
  Parts parts(simulation);
  parts.compare();
  const IndividualId first = parts.breeding.incumbent(), better = parts.add("softmax_fastest");
  const Archive& archive = parts.breeding.archive();
  const double best = archive.fitness(first), measured = archive.fitness(better);
  if (!parts.comparisons.due()) return;  // it was not measured faster
  parts.compare();
  BOOST_REQUIRE(archive.duel(better));
  const DuelResult& duel = *archive.duel(better);
  BOOST_TEST(duel.incumbent == first);
  BOOST_TEST(duel.all.log_ratio == std::log(1.6 / 1.5), boost::test_tools::tolerance(0.5));
  BOOST_TEST(duel.workloads.size() == parts.breeding.workloads().size());
  BOOST_TEST(archive.fitness(better) == best * std::exp(duel.all.log_ratio));
  BOOST_TEST(archive.fitness(better) != measured);
  const std::vector<Elite> elites = parts.breeding.strategy().elites(archive.member(better).island);
  BOOST_TEST(std::ranges::find(elites, better, &Elite::id)->fitness == archive.fitness(better));
  // The record says the same, to other processes and to a resumed search.
  const Record& record = parts.writer.record();
  Standings standings(record);
  BOOST_TEST(standings.fitness(better) == archive.fitness(better), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(standings.fitness(first) == record.individual(first)->individual.fitness);
  BOOST_TEST(record.individual(better)->individual.fitness == measured);
  Breeding again(parts.config, parts.evaluator.devices()->front().facts, parts.sources);
  Listener nobody;
  apply_decisions(record, again, nobody);
  BOOST_REQUIRE(again.archive().duel(better));
  BOOST_TEST((*again.archive().duel(better) == duel));
  BOOST_TEST(again.archive().fitness(better) == archive.fitness(better));
}

BOOST_AUTO_TEST_CASE(duels_that_noise_leaves_undecided_lead_to_one_advice_until_one_is_decided) {
  Simulation simulation;
  simulation.noise = 0.0;
  simulation.gate_noise = 0.4;
  Parts parts(simulation, {"gate.max_device_seconds=0.2s"});
  parts.compare();
  for (int i = 0; i < 6; ++i) {
    BOOST_TEST(summary_of(parts.writer.record()).gate_advice.empty() == (i < 5), i);
    parts.add("softmax_fastest_" + std::to_string(i));
    parts.compare();
    BOOST_TEST((parts.writer.record().duels().back().verdict == Verdict::undecided));
  }
  const std::string advice = summary_of(parts.writer.record()).gate_advice;
  BOOST_TEST(advice.find(" --set gate.max_device_seconds=") != std::string::npos, advice);
  BOOST_TEST(parts.events("warning").size() == 1U);
}

BOOST_AUTO_TEST_CASE(kernels_are_ordered_by_their_duels_with_and_without_a_filter) {
  Parts parts;
  parts.compare();
  const IndividualId first = parts.breeding.incumbent(), better = parts.add("softmax_fastest");
  parts.compare();
  BOOST_REQUIRE(parts.breeding.archive().duel(better));
  // The incumbent was measured a hundred times as fast, so that its challenger only leads by the duel.
  SQLite::Database(parts.folder.database().string(), SQLite::OPEN_READWRITE)
      .exec(fmt::format("UPDATE individuals SET fitness = 100 * fitness WHERE id = {}", first));
  const Record& record = parts.writer.record();
  for (const char* state : {"", "measured"}) {
    KernelQuery query;
    query.order = KernelQuery::Order::fittest, query.state = state;
    const auto rows = kernels_in(record, query).value();
    BOOST_TEST(rows.at(0).id == std::to_string(better), state);
    BOOST_TEST(rows.at(1).id == std::to_string(first), state);
  }
}

BOOST_AUTO_TEST_CASE(a_duel_of_an_earlier_version_leaves_the_measured_fitness) {
  Parts parts;
  parts.compare();
  const IndividualId better = parts.add("softmax_fastest");
  const double measured = parts.breeding.archive().fitness(better);
  parts.compare();
  BOOST_TEST(parts.breeding.archive().fitness(better) != measured);
  for (const char* body : {"better", "undecided", "open"}) {
    SQLite::Database database(parts.folder.database().string(), SQLite::OPEN_READWRITE);
    database.setBusyTimeout(1000);
    SQLite::Statement change(database, "UPDATE decisions SET body = ? WHERE kind = 'duel'");
    change.bind(1, body);
    change.exec();
    Breeding again(parts.config, parts.evaluator.devices()->front().facts, parts.sources);
    Listener nobody;
    apply_decisions(parts.writer.record(), again, nobody);
    BOOST_TEST(again.archive().fitness(better) == measured, body);
    BOOST_TEST((again.winner() == better) == (body == std::string("better")), body);
    BOOST_TEST((again.challenger() == std::optional(better)) == (body == std::string("open")), body);
  }
  SQLite::Database(parts.folder.database().string(), SQLite::OPEN_READWRITE)
      .exec(
          "UPDATE decisions SET body = '{\"verdict\":\"better\",\"open\":false,\"ratio\":[1e9,null,null],"
          "\"workloads\":[]}' WHERE kind = 'duel'");
  Breeding again(parts.config, parts.evaluator.devices()->front().facts, parts.sources);
  Listener nobody;
  BOOST_CHECK_THROW(apply_decisions(parts.writer.record(), again, nobody), std::exception);
}

BOOST_AUTO_TEST_CASE(an_undecided_duel_goes_on_without_another_share_of_alpha_when_nothing_else_waits) {
  Simulation simulation;
  simulation.gate_noise = 0.3;  // a block costs 0.01 s: too few of them to show 7 %
  Parts parts(simulation, {"gate.max_device_seconds=0.5s"});
  parts.compare();
  const IndividualId better = parts.add("softmax_fastest");
  parts.compare();
  auto duels = parts.writer.record().duels();
  BOOST_REQUIRE(duels.size() == 1U);
  BOOST_REQUIRE((duels[0].verdict == Verdict::undecided));
  BOOST_REQUIRE(duels[0].report.contains("times"));
  BOOST_TEST(parts.comparisons.due());
  BOOST_TEST(parts.breeding.challenger().value_or(0) == better);
  while (parts.comparisons.due() && parts.breeding.winner() == 0) parts.compare();
  duels = parts.writer.record().duels();
  BOOST_TEST(duels.size() >= 2U);
  BOOST_TEST(duels.size() <= static_cast<std::size_t>(Breeding::kMostParts));
  BOOST_TEST(summary_of(parts.writer.record()).duels == 1);
  const auto blocks = [&](std::size_t i) { return duels[i].report.at("decision").at("blocks").get<int>(); };
  for (std::size_t i = 1; i < duels.size(); ++i) {
    BOOST_TEST(blocks(i) > blocks(i - 1));
    BOOST_TEST(duels[i].challenger == better);
  }
  // What the parts say together is what one gate says of all times.
  const nlohmann::json& first = duels[0].report;
  BOOST_TEST(first.at("options").at("alpha").get<double>() == AlphaLedger(parts.config.gate_alpha).share(1),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(first.at("times").at("blocks").size() == static_cast<std::size_t>(blocks(0)));
}

BOOST_AUTO_TEST_CASE(what_fails_its_confirmation_is_expelled) {
  Simulation simulation;
  simulation.refuse_confirmation = true;
  Parts parts(simulation);
  parts.compare();
  BOOST_TEST(parts.outcome.promoted == 0);
  BOOST_TEST(parts.breeding.incumbent() == 0);
  BOOST_TEST(parts.writer.record().individual(2)->expelled);
  BOOST_TEST(parts.events("refused").size() == 1U);
}

BOOST_AUTO_TEST_CASE(speed_that_is_bought_with_exactness_is_refused) {
  Simulation simulation;
  simulation.error_of = [](const Variant& v) { return v.manifest.name == "softmax_fastest" ? 1.3 : 0.8; };
  for (const bool allowed : {false, true}) {
    Parts parts(simulation,
                allowed ? std::vector<std::string>{"gate.max_error_growth=1.4"} : std::vector<std::string>{});
    parts.compare();
    BOOST_TEST(parts.breeding.incumbent() == 2);  // the first best has nothing before it
    const IndividualId better = parts.add("softmax_fastest");
    parts.compare();
    BOOST_REQUIRE(parts.breeding.winner() == better);
    parts.compare();
    BOOST_TEST(parts.breeding.incumbent() == (allowed ? better : 2));
    BOOST_TEST(parts.writer.record().individual(better)->expelled == !allowed);
    const auto confirmation = parts.writer.record().confirmation(better);
    BOOST_REQUIRE(confirmation);
    BOOST_TEST(confirmation->measured() == allowed);
    BOOST_REQUIRE(confirmation->exactness.size() == 2U);
    BOOST_TEST(confirmation->exactness[1].error.rms == 1.3);
    BOOST_TEST(confirmation->exactness[1].bar == 1.0);
    if (!allowed) {
      BOOST_TEST(confirmation->reason == "less exact than gate.max_error_growth allows for peaked inputs");
      BOOST_TEST(confirmation->diagnostics.starts_with(
          "For peaked inputs the rms error is 1.3 x the permitted one, but at most 1.1 x is allowed here"));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_best_of_unknown_exactness_refuses_nobody) {
  Simulation simulation;
  simulation.error_of = [](const Variant& v) { return v.manifest.name == "softmax_fastest" ? 1.9 : 0.0; };
  Parts parts(simulation);
  parts.compare();
  const IndividualId better = parts.add("softmax_fastest");
  parts.compare();
  parts.compare();
  BOOST_TEST(parts.breeding.incumbent() == better);
}

BOOST_AUTO_TEST_CASE(a_confirmation_that_is_late_is_due_again) {
  Simulation simulation;
  simulation.is_late = [](const Variant&, Stage stop_after) { return stop_after == Stage::confirm; };
  Parts parts(simulation);
  parts.compare();
  BOOST_TEST(parts.comparisons.due());
  BOOST_TEST(parts.second_tries.granted(2, Examination::confirm));
  parts.compare();
  BOOST_TEST(parts.writer.record().individual(2)->expelled);
}

BOOST_AUTO_TEST_CASE(a_side_of_a_duel_that_compiles_no_more_is_trouble_of_the_machine) {
  Simulation simulation;
  simulation.quiet = true;  // so that nothing is compiled for the confirmation yet
  Parts parts(simulation);
  parts.compare();
  parts.add("softmax_fastest");
  parts.comparisons.start();
  const JobPtr job = parts.pipeline.next(Clock::now() + std::chrono::seconds(60));
  BOOST_REQUIRE(job);
  Duel& duel = std::get<Duel>(job->work);
  duel.build.compiled[1] = tl::make_unexpected(rejection(Stage::compile, "the disk is full", ""));
  const Comparisons::Outcome outcome = parts.comparisons.returned(job, duel);
  BOOST_REQUIRE(outcome.trouble);
  BOOST_TEST(outcome.trouble->message.find("the disk is full") != std::string::npos);
  BOOST_TEST(!parts.comparisons.in_flight());
  BOOST_TEST(parts.comparisons.due());
}

BOOST_AUTO_TEST_CASE(a_jump_of_the_pace_is_measured_again_before_it_counts) {
  Simulation simulation;
  simulation.noise = 0.0;
  simulation.pace = 0.8;
  simulation.cool = 3;  // the seeds and the confirmation: hot from the first measurement of the pace on
  Parts parts(simulation, {"evaluation.pace_every=1s"});
  parts.compare();
  IncumbentPace pace(parts.config, parts.recorder, parts.breeding, parts.sources, parts.pipeline);
  const auto measure = [&] {
    pace.start_if_due();
    parts.drain([&](const JobPtr& job) { pace.returned(job, std::get<Pace>(job->work)); });
  };
  pace.start_if_due();
  BOOST_TEST(pace.awaited());  // a record that has an incumbent: nothing is measured beside it before
  parts.drain([&](const JobPtr& job) { pace.returned(job, std::get<Pace>(job->work)); });
  BOOST_TEST(parts.breeding.pace() == 1.0);
  BOOST_TEST(parts.events("pace").empty());
  measure();
  BOOST_TEST(parts.breeding.pace() == 0.8, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(parts.events("pace").size() == 1U);
  BOOST_TEST(!pace.awaited());
}

BOOST_AUTO_TEST_SUITE_END()
