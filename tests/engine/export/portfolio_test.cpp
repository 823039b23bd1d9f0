// SPDX-License-Identifier: Apache-2.0
// Which kernels of a run become its portfolio, decided from duels and from a simulated device.
#include "engine/export/portfolio.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/export/portfolio_duels.hpp"
#include "engine/search/search.hpp"
#include "support/contains.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

SpecialistDuel won(IndividualId kernel, const std::string& workload, double ratio) {
  return {workload,
          kernel,
          Verdict::better,
          std::log(ratio),
          std::log(ratio) - 0.01,
          std::log(ratio) + 0.01,
          8,
          0,
          1.0,
          1e-4};
}
SpecialistDuel undecided(IndividualId kernel, const std::string& workload, double ratio) {
  SpecialistDuel duel = won(kernel, workload, ratio);
  duel.verdict = Verdict::undecided;
  duel.lower = -std::numeric_limits<double>::infinity();
  return duel;
}

const std::vector<std::string> kWorkloads{"a", "b", "c", "d"};

std::vector<IndividualId> goes_to(const KernelPortfolio& portfolio) {
  std::vector<IndividualId> kernels;
  for (const PortfolioEntry& entry : portfolio.entries) kernels.push_back(entry.kernel);
  return kernels;
}

KernelPortfolio example() {
  KernelPortfolio portfolio;
  portfolio.best = 7;
  portfolio.duels = {won(8, "a", 1.2),   won(9, "a", 1.3), won(9, "b", 1.05),
                     won(10, "c", 1.25), won(8, "c", 1.2), undecided(10, "d", 2.0)};
  return portfolio;
}

// Where softmax_plain is faster than softmax_fast, on the second workload, as evaluations and duels see it.
class Tilted : public SimulatedEvaluator {
 public:
  using SimulatedEvaluator::SimulatedEvaluator;
  Expected<Evaluation> evaluate(int device, const EvaluateRequest& request, const Note& note) override {
    confirmations += request.stop_after == Stage::confirm;
    auto found = SimulatedEvaluator::evaluate(device, request, note);
    if (found && found->measured() && found->workloads.size() > 1 &&
        request.variant.variant.manifest.name == "softmax_plain")
      found->workloads[1].value *= 2.0;
    return found;
  }
  int confirmations = 0;
};
class Compared : public Tilted {
 public:
  using Tilted::Tilted;
  Expected<GateReport> gate(int, const GateRequest& request, const Note&) override {
    BOOST_REQUIRE(request.workloads.size() == 1U);
    duels.push_back(request.challenger.variant.manifest.name + " " + request.workloads[0].name);
    alpha += request.options.alpha;
    GateReport report;
    report.decision.verdict = Verdict::better;
    report.decision.log_ratio = 0.3;
    report.decision.lower = 0.2;
    report.decision.upper = 0.4;
    return report;
  }
  std::vector<std::string> duels;
  double alpha = 0.0;
};

struct TiltedRun : ScriptedRun {
  Simulation simulation;
  Config config = softmax_config(path() / "config", {"budget.evaluations=2"});
  PortfolioSettings settings{};

  void search() {
    Runtime runtime = simulated_runtime(simulation);
    runtime.evaluator = [this](const Config&, const std::filesystem::path&) {
      return std::make_unique<Tilted>(simulation);
    };
    const auto outcome = begin_search(config, path() / "run", runtime, {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    BOOST_REQUIRE(outcome->best == 2);  // softmax_fast
  }
  Expected<KernelPortfolio> decided(Compared& evaluator) {
    return decide_portfolio(
        record(), config, evaluator, settings, [](const std::string&) {}, kNever);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(portfolio)

BOOST_AUTO_TEST_CASE(the_kernels_that_add_most_are_taken_first) {
  KernelPortfolio portfolio = example();
  choose_entries(portfolio, kWorkloads, 4);
  BOOST_TEST(goes_to(portfolio) == (std::vector<IndividualId>{9, 9, 10, 7}),
             boost::test_tools::per_element());
  BOOST_TEST(portfolio.kernels() == (std::vector<IndividualId>{7, 9, 10}), boost::test_tools::per_element());
  const PortfolioEntry gain = portfolio.gain();
  BOOST_TEST(std::exp(4 * gain.log_ratio) == 1.3 * 1.05 * 1.25, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(gain.lower == gain.log_ratio - 0.03 / 4, boost::test_tools::tolerance(1e-9));

  choose_entries(portfolio, kWorkloads, 2);  // 8 serves two workloads: more than 9 or 10 alone
  BOOST_TEST(goes_to(portfolio) == (std::vector<IndividualId>{8, 7, 8, 7}), boost::test_tools::per_element());

  portfolio.refused[8] = portfolio.refused[9] = "not as exact";
  choose_entries(portfolio, kWorkloads, 4);
  BOOST_TEST(goes_to(portfolio) == (std::vector<IndividualId>{7, 7, 10, 7}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_portfolio_survives_its_json) {
  KernelPortfolio portfolio = example();
  choose_entries(portfolio, kWorkloads, 3);
  portfolio.left = 2;
  portfolio.device = "two cores";
  portfolio.refused[12] = "it failed";
  portfolio.confirmations[9] = rejection(Stage::confirm, "wrong", "");
  const nlohmann::json written = portfolio;
  const auto read = nlohmann::json::parse(written.dump()).get<KernelPortfolio>();
  BOOST_TEST(nlohmann::json(read) == written);
  BOOST_TEST(std::isinf(read.duels.back().lower));
}

BOOST_FIXTURE_TEST_CASE(a_specialist_is_compared_where_it_was_measured_faster, TiltedRun) {
  search();
  Compared evaluator(simulation);
  const auto found = decided(evaluator);
  BOOST_REQUIRE_MESSAGE(found, (found ? "" : found.error().message));
  const auto& workloads = config.task->workloads("cpu_quick")->workloads;
  BOOST_TEST(evaluator.duels == (std::vector<std::string>{"softmax_plain " + workloads[1].name}),
             boost::test_tools::per_element());
  BOOST_TEST(evaluator.alpha <= config.gate_alpha);
  BOOST_TEST(goes_to(*found) == (std::vector<IndividualId>{2, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(found->gain().lower == 0.2 / 3, boost::test_tools::tolerance(1e-9));
  // The first incumbent was confirmed in the search.
  BOOST_TEST(evaluator.confirmations == (record().confirmation(1) ? 0 : 1));
}

BOOST_FIXTURE_TEST_CASE(how_much_there_is_to_do_is_known_before_it_begins, TiltedRun) {
  search();
  const PortfolioWork work = portfolio_work(record(), config, settings);
  BOOST_TEST(work.duels == 1u);
  BOOST_TEST(work.duel_seconds == config.gate.max_device_seconds);
  BOOST_TEST(work.confirmations == (record().confirmation(1) ? 0u : 1u));
  settings.max_seconds = 1.0;
  BOOST_TEST(portfolio_work(record(), config, settings).duel_seconds == 1.0);

  Compared evaluator(simulation);
  settings.max_seconds = 1800.0;
  BOOST_TEST(portfolio_work(record(), config, settings, *decided(evaluator)).duels == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_kernel_that_is_not_wanted_is_no_specialist_whatever_was_decided_before, TiltedRun) {
  search();
  PortfolioProgress progress;
  Compared first(simulation);
  progress.so_far = *decided(first);
  BOOST_REQUIRE(progress.so_far.kernels().size() == 2U);

  settings.without = {1};
  Compared second(simulation);
  const auto found = decide_portfolio(
      record(), config, second, settings, [](const std::string&) {}, kNever, progress);
  BOOST_REQUIRE(found);
  BOOST_TEST(second.duels.empty());
  BOOST_TEST(found->kernels().size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(an_interrupted_portfolio_goes_on_from_what_was_decided, TiltedRun) {
  search();
  PortfolioProgress progress;
  KernelPortfolio kept;
  progress.keep = [&](const KernelPortfolio& so_far) { kept = so_far; };
  Compared first(simulation);
  const auto whole = decide_portfolio(
      record(), config, first, settings, [](const std::string&) {}, kNever, progress);
  BOOST_REQUIRE(whole);
  BOOST_REQUIRE(first.duels.size() == 1U && kept.duels.size() == 1U);
  const std::size_t confirmed = kept.confirmations.size();

  progress.so_far = nlohmann::json::parse(nlohmann::json(kept).dump()).get<KernelPortfolio>();
  Compared second(simulation);
  const auto again = decide_portfolio(
      record(), config, second, settings, [](const std::string&) {}, kNever, progress);
  BOOST_REQUIRE(again);
  BOOST_TEST(second.duels.empty());
  BOOST_TEST(second.confirmations == first.confirmations - static_cast<int>(confirmed));
  BOOST_TEST(goes_to(*again) == goes_to(*whole), boost::test_tools::per_element());

  settings.each = 1;  // shares gate.alpha among fewer duels: those of before do not count
  Compared third(simulation);
  BOOST_REQUIRE(decide_portfolio(
      record(), config, third, settings, [](const std::string&) {}, kNever, progress));
  BOOST_TEST(third.duels.size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(a_kernel_that_is_less_exact_is_no_specialist, TiltedRun) {
  simulation.error_of = [](const Variant& variant) {
    return variant.manifest.name == "softmax_plain" ? 3.0 : 1.0;
  };
  config.max_error_growth = 10.0;  // for the search
  search();
  config.max_error_growth = 1.1;
  Compared evaluator(simulation);
  const auto found = decided(evaluator);
  BOOST_REQUIRE(found);
  BOOST_TEST(found->kernels().size() == 1U);
  BOOST_TEST_REQUIRE(found->refused.contains(1));
  BOOST_TEST(contains(found->refused.at(1), "peaked"), found->refused.at(1));
}

BOOST_FIXTURE_TEST_CASE(without_time_nothing_is_compared_and_it_says_how_much_is_left, TiltedRun) {
  search();
  settings.max_seconds = 0.0;
  Compared evaluator(simulation);
  const auto found = decided(evaluator);
  BOOST_REQUIRE(found);
  BOOST_TEST(found->left == 1);
  BOOST_TEST(found->kernels().size() == 1U);
  BOOST_TEST(evaluator.duels.empty());
}

BOOST_AUTO_TEST_SUITE_END()
