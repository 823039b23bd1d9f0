// SPDX-License-Identifier: Apache-2.0
// A portfolio learnt over a domain, on a simulated device: what the table learns, what is kept when a call
// ends early, and what is said.
#include "engine/export/portfolio_over.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/search/search.hpp"
#include "support/contains.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// softmax_plain is 1.5 times as fast where rows have at most 512 columns, softmax_fast elsewhere.
double seconds_of(const std::string& kernel, const Workload& shape) {
  const double work = 1e-9 * shape.values.at("R") * shape.values.at("C");
  return work * ((kernel == "softmax_plain") == (shape.values.at("C") <= 512) ? 1.0 : 1.5);
}

class Timed : public SimulatedEvaluator {
 public:
  using SimulatedEvaluator::SimulatedEvaluator;
  Expected<Evaluation> evaluate(int device, const EvaluateRequest& request, const Note& note) override {
    if (!request.timed_only) {
      auto found = SimulatedEvaluator::evaluate(device, request, note);
      // Both kernels are members: each was measured faster somewhere.
      if (found && found->measured() && found->workloads.size() > 1 &&
          request.variant.variant.manifest.name == "softmax_plain")
        found->workloads[1].value *= 2.0;
      return found;
    }
    BOOST_REQUIRE(request.workloads.size() == 1U);
    const Workload& shape = request.workloads.front();
    std::unique_lock lock(mutex_);
    timed.push_back(shape.name);
    devices.insert(device);
    if (++in_flight_ == at_once) met_ = true, changed_.notify_all();
    changed_.wait(lock, [this] { return met_ || at_once == 0; });
    --in_flight_;
    if (stop != nullptr && timed.size() == stop_after) *stop = true;
    if (shape.values.at("R") == 1.0) return host_rejection(Stage::measure, HostFault::busy, "");
    const auto is_wrong = [&](const Compiled& side) {
      return side.variant.manifest.name == wrong && shape.values.at("C") > wrong_beyond;
    };
    if (is_wrong(request.variant)) return rejection(Stage::measure, "wrong result", "");
    Evaluation evaluation;
    evaluation.verdict = Evaluation::Verdict::measured;
    evaluation.stage = Stage::measure;
    WorkloadResult& result = evaluation.workloads.emplace_back();
    result.workload = shape.name;
    const double own = slow * seconds_of(request.variant.variant.manifest.name, shape);
    result.median_us = 1e6 * own;
    for (const auto& [name, side] : request.contenders)
      if (!is_wrong(side)) result.ratios[name] = slow * seconds_of(side.variant.manifest.name, shape) / own;
    return evaluation;
  }
  std::vector<std::string> timed;
  std::set<int> devices;    // that timed
  std::size_t at_once = 0;  // no call returns before so many are in flight together
  std::string wrong = {};   // a kernel that is wrong where rows are longer than that
  double wrong_beyond = 8192.0;
  double slow = 1.0;
  std::atomic<bool>* stop = nullptr;
  std::size_t stop_after = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t in_flight_ = 0;
  bool met_ = false;
};

struct TwoKernels : ScriptedRun {
  Simulation simulation;
  Config config = softmax_config(path() / "config", {"budget.evaluations=2"});
  OverSettings settings{.domain = "R: 1-4096, C: 16-16384", .shapes = 60, .proof = 40, .seed = 5};
  std::atomic<bool> stop{false};
  std::string told;

  void search() {
    Runtime runtime = simulated_runtime(simulation);
    runtime.evaluator = [this](const Config&, const std::filesystem::path&) {
      return std::make_unique<Timed>(simulation);
    };
    const auto outcome = begin_search(config, path() / "run", runtime, {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    BOOST_REQUIRE(outcome->best == 2);  // softmax_fast
  }
  std::filesystem::path log() const { return path() / "over.jsonl"; }
  Expected<KernelPortfolio> decided(Timed& evaluator) {
    return decide_portfolio_over(
        record(), config, evaluator, settings, log(),
        [this](const std::string& step) { told += step + "\n"; }, stop);
  }
  KernelPortfolio must_be_decided(Timed& evaluator) {
    auto found = decided(evaluator);
    BOOST_REQUIRE_MESSAGE(found, (found ? "" : found.error().message));
    return *found;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(portfolio_over, TwoKernels)

BOOST_AUTO_TEST_CASE(a_table_is_learnt_and_proved_on_shapes_drawn_later) {
  search();
  Timed evaluator(simulation);
  const KernelPortfolio found = must_be_decided(evaluator);
  BOOST_REQUIRE(found.over.has_value());
  const DomainDispatch& over = *found.over;
  BOOST_TEST(found.kernels() == (std::vector<IndividualId>{2, 1}), boost::test_tools::per_element());
  BOOST_TEST(over.learnt == 60U);
  BOOST_TEST(over.table.leaves().size() == 2U);
  BOOST_TEST(over.table.nodes[0].test.feature.factors == std::vector<std::string>{"C"},
             boost::test_tools::per_element());
  BOOST_TEST(over.table.nodes[0].test.most > 350.0);
  BOOST_TEST(over.table.nodes[0].test.most < 750.0);

  std::set<std::string> names(evaluator.timed.begin(), evaluator.timed.end());
  BOOST_TEST(names.size() == evaluator.timed.size());  // no shape was drawn twice
  const DispatchFigures drawn = figures_of(over, over.drawn);
  BOOST_TEST(drawn.shapes == 40U);
  BOOST_TEST(drawn.regret < 1.05);  // of the 40 at most four beside the threshold
  BOOST_TEST(drawn.worst < 1.51);
  BOOST_TEST(drawn.beside == 0U);  // the run has no contenders
  BOOST_TEST(over.left_out.size() == 1U);
  BOOST_TEST(over.left_out.begin()->second >= 1U);

  const auto& workloads = config.task->workloads("cpu_quick")->workloads;
  BOOST_TEST_REQUIRE(found.entries.size() == workloads.size());
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    BOOST_TEST(found.entries[w].kernel == (workloads[w].values.at("C") <= 512 ? 1 : 2));
    BOOST_TEST(found.entries[w].log_ratio == (workloads[w].values.at("C") <= 512 ? std::log(1.5) : 0.0),
               boost::test_tools::tolerance(1e-9));
  }
  BOOST_TEST(figures_of(over, over.listed).shapes == workloads.size());
  BOOST_TEST(contains(told, "learning on drawn shape 60 of 60, about "), told);
  BOOST_TEST(contains(told, "proving on drawn shape 40 of 40"), told);
  const nlohmann::json written = found;
  BOOST_TEST(nlohmann::json(nlohmann::json::parse(written.dump()).get<KernelPortfolio>()) == written);
}

BOOST_AUTO_TEST_CASE(all_device_workers_measure_each_a_shape_of_its_own) {
  search();
  simulation.device_workers = 3;
  Timed evaluator(simulation);
  evaluator.at_once = 3;
  const KernelPortfolio found = must_be_decided(evaluator);
  BOOST_TEST(evaluator.devices.size() == 3U);
  std::set<std::string> names(evaluator.timed.begin(), evaluator.timed.end());
  BOOST_TEST(names.size() == evaluator.timed.size());
  BOOST_TEST(found.over->learnt == 60U);
  BOOST_TEST(figures_of(*found.over, found.over->drawn).shapes == 40U);
}

BOOST_AUTO_TEST_CASE(what_was_measured_is_kept_when_a_call_is_killed_and_the_next_goes_on) {
  search();
  Timed whole(simulation);
  const KernelPortfolio expected = must_be_decided(whole);
  std::filesystem::remove(log());

  std::vector<std::string> done;
  for (const std::size_t after : {10U, 40U, 30U}) {  // within learning, and within the proof
    Timed some(simulation);
    some.stop = &stop;
    some.stop_after = after;
    const auto ended = decided(some);
    BOOST_REQUIRE(!ended);
    BOOST_TEST((ended.error().kind == ErrorKind::interrupted));
    done.insert(done.end(), some.timed.begin(), some.timed.end() - 1);  // the last was in flight
    stop = false;
    std::ofstream(log(), std::ios::app) << "{\"what\": \"drawn\", \"ti";  // as a kill leaves it
  }
  Timed rest(simulation);
  const KernelPortfolio found = must_be_decided(rest);
  done.insert(done.end(), rest.timed.begin(), rest.timed.end());
  // Again only what noise hid, those with one row.
  std::erase_if(done, [](const std::string& shape) { return shape.starts_with("R1_"); });
  std::erase_if(whole.timed, [](const std::string& shape) { return shape.starts_with("R1_"); });
  BOOST_TEST(done.size() == whole.timed.size());
  BOOST_TEST(std::set(done.begin(), done.end()).size() == done.size());
  BOOST_TEST(nlohmann::json(found.over->table) == nlohmann::json(expected.over->table));

  Timed again(simulation);  // nothing is left to do
  must_be_decided(again);
  BOOST_TEST(again.timed.empty());
}

BOOST_AUTO_TEST_CASE(more_shapes_make_a_new_table_and_a_new_proof) {
  search();
  settings.shapes = settings.proof = 20;
  Timed first(simulation);
  const KernelPortfolio before = must_be_decided(first);
  settings.shapes = 50;
  Timed second(simulation);
  const KernelPortfolio after = must_be_decided(second);
  BOOST_TEST(after.over->learnt == 50U);
  BOOST_TEST(figures_of(*after.over, after.over->drawn).shapes == 20U);
  for (const ShapeTimes& each : after.over->drawn)
    for (const ShapeTimes& earlier : before.over->drawn) BOOST_TEST(each.shape != earlier.shape);
}

BOOST_AUTO_TEST_CASE(another_domain_begins_anew_and_says_so) {
  search();
  settings.shapes = settings.proof = 8;
  Timed first(simulation);
  must_be_decided(first);
  settings.domain = "R: 1-4096, C: 16-8192";
  Timed second(simulation);
  const KernelPortfolio found = must_be_decided(second);
  BOOST_TEST(found.over->learnt == 8U);
  BOOST_TEST(contains(told, ".before.jsonl: that was over \"R: 1-4096, C: 16-16384\""), told);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_less_exact_is_not_in_the_table) {
  simulation.error_of = [](const Variant& variant) {
    return variant.manifest.name == "softmax_plain" ? 3.0 : 1.0;
  };
  config.max_error_growth = 10.0;  // for the search
  search();
  config.max_error_growth = 1.1;
  Timed evaluator(simulation);
  const KernelPortfolio found = must_be_decided(evaluator);
  BOOST_TEST(found.kernels() == std::vector<IndividualId>{2}, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(found.refused.contains(1));
  BOOST_TEST(contains(found.refused.at(1), "peaked"));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_wrong_on_a_drawn_shape_is_in_no_table) {
  search();
  Timed evaluator(simulation);
  evaluator.wrong = "softmax_plain";
  const KernelPortfolio found = must_be_decided(evaluator);
  BOOST_TEST(found.kernels() == std::vector<IndividualId>{2}, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(found.refused.contains(1));
  BOOST_TEST(contains(found.refused.at(1), ": wrong result"), found.refused.at(1));
  Timed again(simulation);  // which finds nothing wrong: that is known from the file
  BOOST_TEST(must_be_decided(again).refused.contains(1));
  BOOST_TEST(again.timed.empty());

  std::filesystem::remove(log());
  Timed best(simulation);
  best.wrong = "softmax_fast";
  const auto refused = decided(best);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(contains(refused.error().message, "the best kernel, #2, failed on "), refused.error().message);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_found_wrong_by_the_proof_makes_another_table) {
  search();
  settings.shapes = settings.proof = 30;
  Timed evaluator(simulation);
  must_be_decided(evaluator);
  settings.proof = 60;  // goes on with the proof
  Timed later(simulation);
  later.wrong = "softmax_plain";
  later.wrong_beyond = 16.0;
  const KernelPortfolio found = must_be_decided(later);
  BOOST_TEST(found.kernels() == std::vector<IndividualId>{2}, boost::test_tools::per_element());
  BOOST_TEST(figures_of(*found.over, found.over->drawn).shapes == 60U);
  BOOST_TEST(found.over->learnt > 30U);  // with the shapes of the first proof
}

BOOST_AUTO_TEST_CASE(shapes_beyond_the_limits_are_not_drawn_or_do_not_count) {
  search();
  settings.most_seconds = 1e-3;  // 10^6 elements
  settings.most_bytes = 4e6;     // 5 * 10^5 elements
  settings.shapes = settings.proof = 20;
  Timed evaluator(simulation);
  const KernelPortfolio found = must_be_decided(evaluator);
  for (const ShapeTimes& each : found.over->drawn)
    BOOST_TEST(each.values.at("R") * each.values.at("C") <= 5e5, each.shape);

  settings.most_bytes = 1e12;
  settings.most_seconds = 1e-4;  // the record's rate allows more than that
  Timed slower(simulation);
  slower.slow = 8.0;
  const KernelPortfolio within = must_be_decided(slower);
  BOOST_TEST(within.over->left_out.contains("a call takes more than 0.1 ms"));
  BOOST_TEST(std::ranges::any_of(within.over->drawn, [](const ShapeTimes& each) {
    return each.left_out && each.left_out->why == LeftOut::Why::too_slow;
  }));
  for (const ShapeTimes& each : within.over->drawn)
    BOOST_TEST((each.left_out.has_value() || each.values.at("R") * each.values.at("C") <= 12'500.0),
               each.shape);
}

BOOST_AUTO_TEST_CASE(why_a_shape_does_not_count_is_told_apart_from_its_words) {
  Evaluation late = rejection(Stage::measure, "timed out on R7: no message", "");
  late.late = true;
  for (const LeftOut& why : {LeftOut::after(host_rejection(Stage::measure, HostFault::busy, "R7: noise")),
                             LeftOut::after(late), LeftOut::too_slow(1e-3), LeftOut::not_computed()}) {
    ShapeTimes times{.shape = "R7"};
    times.left_out = why;
    const auto read = nlohmann::json(times).get<ShapeTimes>();
    BOOST_REQUIRE(read.left_out.has_value());
    BOOST_TEST((read.left_out->why == why.why));
    BOOST_TEST((read.left_out->fault == why.fault));
    BOOST_TEST(read.left_out->words == why.words);
    BOOST_TEST(!why.words.empty());
    BOOST_TEST(!contains(why.words, "R7"));
  }
  // Files of earlier versions have the words only.
  nlohmann::json earlier(ShapeTimes{.shape = "R7"});
  BOOST_TEST(!earlier.get<ShapeTimes>().left_out.has_value());
  earlier["left_out"] = "no kernel computed it";
  BOOST_TEST((earlier.get<ShapeTimes>().left_out->why == LeftOut::Why::earlier));
}

BOOST_AUTO_TEST_CASE(without_time_or_shapes_it_says_what_to_change) {
  search();
  Timed evaluator(simulation);
  settings.budget_s = 1e-9;
  auto found = decided(evaluator);
  BOOST_REQUIRE(!found);
  BOOST_TEST(contains(found.error().message, "only 0 shapes were measured, too few to learn from"));
  settings.budget_s = 100.0;
  settings.domain = "R: 1000000000-2000000000, C: 1000000000-2000000000";
  found = decided(evaluator);
  BOOST_REQUIRE(!found);
  BOOST_TEST(contains(found.error().message, "none is allowed by the task"), found.error().message);
  settings.domain = "Q: 1-2";
  found = decided(evaluator);
  BOOST_REQUIRE(!found);
  BOOST_TEST(contains(found.error().message, "--over: the task softmax has no dimension or parameter Q"));
}

BOOST_AUTO_TEST_SUITE_END()
