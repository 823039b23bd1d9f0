// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/sampler.hpp"
#include "evaluators/check/oracle.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "evaluators/statistics/quantiles.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;

namespace {

const Task& softmax() {
  static const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  return task;
}

const TaskReference& library() {
  static const TaskReference built = [] {
    auto made = open_reference(softmax(), std::filesystem::path(CULTIVAR_BIN_DIR) / "../cache/tests");
    BOOST_REQUIRE_MESSAGE(made, words(made));
    return *made;
  }();
  return built;
}

Workload shape(double rows, double columns) {
  Workload w;
  w.name = "w";
  w.dtype = Dtype::f32;
  w.values = {{"R", rows}, {"C", columns}};
  return w;
}

// A session in this process that computes softmax in doubles, takes a configurable time, and can be
// configured to return wrong results.
class FakeSession : public Session {
 public:
  struct Behaviour {
    std::vector<double> seconds = {1e-3};
    int wrong_from = -1;  // from this run on, one row is wrong
    int fault_every = 0;  // every n-th run of the process fails like noise
    Fault::Kind fault = Fault::Kind::idle_activity;
    bool idle = false;        // these runs write no results
    bool replays = false;     // returns the first output again
    int disturbed_every = 0;  // every n-th run of the process does not count
    Sample::Disturber disturber = Sample::Disturber::kernel;
    int runs = 0;
  };
  FakeSession(Workload workload, Behaviour& behaviour)
      : workload_(std::move(workload)), behaviour_(behaviour) {}

  tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override {
    Behaviour& b = behaviour_;
    const int run = b.runs++;
    const bool fails = b.fault_every > 0 && run % b.fault_every == b.fault_every - 1;
    if (fails && b.idle)
      for (std::byte& byte : outputs[0]) byte = std::byte{0x40};
    if (fails && !b.idle) compute(inputs[0].bytes, outputs[0]);
    if (fails) return tl::make_unexpected(Fault{b.fault, "noise"});
    if (!b.replays || first_.empty()) compute(inputs[0].bytes, outputs[0]);
    if (b.replays) {
      if (first_.empty()) first_ = outputs[0];
      outputs[0] = first_;
    }
    if (b.wrong_from >= 0 && run >= b.wrong_from)
      for (std::byte& byte : outputs[0]) byte ^= std::byte{0x10};
    Sample sample;
    sample.seconds = b.seconds[static_cast<std::size_t>(run) % b.seconds.size()];
    if (b.disturbed_every > 0 && run % b.disturbed_every == b.disturbed_every - 1) {
      sample.disturbance = "a disturbance";
      sample.disturber = b.disturber;
    }
    return sample;
  }
  std::size_t unwritten_elements() const override { return 0; }

 private:
  void compute(std::span<const std::byte> in, std::vector<std::byte>& out) const {
    const auto rows = static_cast<std::size_t>(workload_.values.at("R")),
               columns = static_cast<std::size_t>(workload_.values.at("C"));
    std::vector<double> x(rows * columns);
    decode(Dtype::f32, in, x);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<double> row = std::span(x).subspan(r * columns, columns);
      const double top = *std::max_element(row.begin(), row.end());
      double sum = 0.0;
      for (double& v : row) sum += v = std::exp(v - top);
      for (double& v : row) v /= sum;
    }
    encode(Dtype::f32, x, out);
  }

  Workload workload_;
  Behaviour& behaviour_;
  std::vector<std::byte> first_;
};

struct Bench {
  Workload workload = shape(64, 256);
  TimedRuns runs{softmax(), library(), workload, 5, 16, 10.0, 2};
  std::vector<SampledSide> sides;

  void add(const std::string& name, FakeSession::Behaviour& behaviour) {
    sides.push_back({name, [this, &behaviour]() -> tl::expected<std::unique_ptr<Session>, Evaluation> {
                       return std::make_unique<FakeSession>(workload, behaviour);
                     }});
  }
  void add_incumbent(FakeSession::Behaviour& behaviour) {
    add("incumbent", behaviour);
    sides.back().is_incumbent = true;
  }
  std::optional<Evaluation> sample(const Sampling& sampling = {}, double incumbent_us = 0.0) {
    return cultivar::sample(runs, sides, sampling, incumbent_us, 2.0, 9, [] {});
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sampler)

BOOST_AUTO_TEST_CASE(screening_takes_its_samples_and_their_quartiles_are_reported) {
  FakeSession::Behaviour behaviour;
  behaviour.seconds = {1e-3, 2e-3, 3e-3, 4e-3};
  Bench bench;
  bench.add("variant", behaviour);
  BOOST_REQUIRE(!bench.sample());
  BOOST_TEST(bench.sides[0].samples.size() == 20U);
  const WorkloadResult result = summarise(softmax(), bench.workload, target_named("cpu"), bench.sides);
  BOOST_TEST(result.median_us == 2500.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(result.q1_us < result.median_us);
  BOOST_TEST(result.q3_us > result.median_us);
  BOOST_TEST(result.unit == "GB/s");
  BOOST_TEST(result.value == 2 * 64 * 256 * 4 / 2.5e-3 / 1e9, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(one_wrong_timed_run_rejects_the_variant) {
  FakeSession::Behaviour behaviour;
  behaviour.wrong_from = 15;
  Bench bench;
  bench.add("variant", behaviour);
  const auto wrong = bench.sample();
  BOOST_REQUIRE(wrong);
  BOOST_TEST((wrong->stage == Stage::measure));
  BOOST_TEST(wrong->reason.find("timed run") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_output_given_again_is_wrong_for_the_next_inputs) {
  FakeSession::Behaviour behaviour;
  behaviour.replays = true;
  Bench bench;
  bench.add("variant", behaviour);
  BOOST_REQUIRE(bench.sample());
}

BOOST_AUTO_TEST_CASE(noise_is_tried_again_but_not_for_ever) {
  FakeSession::Behaviour now_and_then, always;
  now_and_then.fault_every = 4;
  always.fault_every = 1;
  Bench bench, doomed;
  bench.add("variant", now_and_then);
  doomed.add("variant", always);
  BOOST_TEST(!bench.sample().has_value());
  BOOST_TEST(bench.sides[0].samples.size() == 20U);
  const auto wrong = doomed.sample();
  BOOST_REQUIRE(wrong);
  BOOST_TEST(wrong->reason.find("idle activity") != std::string::npos, wrong->reason);
  BOOST_TEST(always.runs == kNoiseLimit);
}

BOOST_AUTO_TEST_CASE(the_incumbent_is_timed_between_the_runs_about_half_as_often) {
  FakeSession::Behaviour variant, best;
  variant.seconds = {2e-3};
  best.seconds = {1e-3};
  Bench bench;
  bench.add("variant", variant);
  bench.add_incumbent(best);
  BOOST_REQUIRE(!bench.sample());
  BOOST_TEST(bench.sides[0].samples.size() == 20U);  // as without it: it is no contender
  BOOST_TEST(bench.sides[1].samples.size() >= 3U);
  BOOST_TEST(bench.sides[1].samples.size() <= 11U);
  const WorkloadResult result = summarise(softmax(), bench.workload, target_named("cpu"), bench.sides);
  BOOST_TEST(result.incumbent_us == 1000.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(result.ratios.empty());
  Evaluation evaluation;
  evaluation.workloads = {result};
  const nlohmann::json kept = evaluation;
  BOOST_TEST(kept.get<Evaluation>().workloads.at(0).incumbent_us == 1000.0,
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_variant_far_slower_than_the_incumbent_beside_it_stops_early) {
  FakeSession::Behaviour variant, best;
  variant.seconds = {5e-3};
  best.seconds = {1e-3};
  Bench bench;
  bench.add("variant", variant);
  bench.add_incumbent(best);
  BOOST_REQUIRE(!bench.sample({}, 1e6));  // by an older measurement it would be far faster
  BOOST_TEST(bench.sides[0].samples.size() == 5U);
}

BOOST_AUTO_TEST_CASE(an_incumbent_that_fails_is_left_out) {
  FakeSession::Behaviour variant, best;
  best.wrong_from = 0;
  Bench bench;
  bench.add("variant", variant);
  bench.add_incumbent(best);
  BOOST_REQUIRE(!bench.sample());
  BOOST_TEST(summarise(softmax(), bench.workload, target_named("cpu"), bench.sides).incumbent_us == 0.0);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_disturbs_more_than_a_third_of_its_runs_is_rejected) {
  for (const int every : {2, 4}) {
    FakeSession::Behaviour behaviour;
    behaviour.disturbed_every = every;
    Bench bench;
    bench.add("variant", behaviour);
    const auto wrong = bench.sample();
    BOOST_TEST(wrong.has_value() == (every == 2));
    if (wrong) {
      BOOST_TEST((wrong->stage == Stage::measure));
      BOOST_TEST(wrong->reason.find("disturbed") != std::string::npos, wrong->reason);
      BOOST_TEST(behaviour.runs < 20);
    }
  }
}

BOOST_AUTO_TEST_CASE(more_than_a_third_of_runs_too_short_is_a_fault_of_the_host) {
  for (const int every : {1, 2, 4}) {
    FakeSession::Behaviour behaviour;
    behaviour.fault_every = every;
    behaviour.fault = Fault::Kind::too_short;
    Bench bench;
    bench.add("variant", behaviour);
    const auto rejected = bench.sample();
    BOOST_TEST(rejected.has_value() == (every < 4));
    if (rejected) {
      BOOST_TEST(rejected->reason.find("too short to be timed") != std::string::npos, rejected->reason);
      BOOST_TEST(rejected->reason.find("noise; use a larger workload") != std::string::npos,
                 rejected->reason);
      BOOST_TEST(rejected->diagnostics.find("with `--again ID`") != std::string::npos, rejected->diagnostics);
      BOOST_TEST((rejected->host_fault == HostFault::busy));  // as if three in a row were too short
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_was_too_short_because_it_did_no_work_is_a_wrong_result) {
  FakeSession::Behaviour behaviour;
  behaviour.fault_every = 8;
  behaviour.fault = Fault::Kind::too_short;
  behaviour.idle = true;
  Bench bench;
  bench.add("variant", behaviour);
  const auto wrong = bench.sample();
  BOOST_REQUIRE(wrong);
  BOOST_TEST(wrong->reason.find("wrong result in a timed run") != std::string::npos, wrong->reason);
  BOOST_TEST(behaviour.runs == 8);
}

BOOST_AUTO_TEST_CASE(a_busy_host_is_waited_for_if_it_disturbs_the_other_sides_too) {
  FakeSession::Behaviour variant, contender;
  for (FakeSession::Behaviour* behaviour : {&variant, &contender}) {
    behaviour->disturbed_every = 2;
    behaviour->disturber = Sample::Disturber::host;
  }
  Sampling sampling;
  sampling.max_samples = 12;
  {
    Bench bench;
    bench.add("variant", variant);
    bench.add("contender", contender);
    BOOST_TEST(!bench.sample(sampling).has_value());
    BOOST_TEST(bench.sides[0].samples.size() == 12U);
    BOOST_TEST(bench.sides[0].discarded > 0);
  }
  contender.disturbed_every = 0;
  Bench bench;
  bench.add("variant", variant);
  bench.add("contender", contender);
  const auto wrong = bench.sample(sampling);
  BOOST_REQUIRE(wrong);
  BOOST_TEST(wrong->diagnostics.find("a disturbance") != std::string::npos, wrong->diagnostics);
}

BOOST_AUTO_TEST_CASE(a_variant_far_behind_the_incumbent_gets_the_least_number_of_samples) {
  FakeSession::Behaviour behaviour;
  Bench bench, close;
  bench.add("variant", behaviour);
  close.add("variant", behaviour);
  BOOST_REQUIRE(!bench.sample({}, 400.0));
  BOOST_TEST(bench.sides[0].samples.size() == 5U);
  BOOST_REQUIRE(!close.sample({}, 600.0));
  BOOST_TEST(close.sides[0].samples.size() == 20U);
}

BOOST_AUTO_TEST_CASE(contenders_are_timed_as_often_and_a_failing_one_drops_out) {
  FakeSession::Behaviour variant, slower, broken;
  slower.seconds = {3e-3};
  broken.wrong_from = 12;
  Bench bench;
  bench.add("variant", variant);
  bench.add("slower", slower);
  bench.add("broken", broken);
  Sampling sampling;
  sampling.max_samples = 10;
  BOOST_REQUIRE(!bench.sample(sampling));
  BOOST_TEST(bench.sides[0].samples.size() == bench.sides[1].samples.size());
  BOOST_TEST(bench.sides[2].trouble.has_value());
  const WorkloadResult result = summarise(softmax(), bench.workload, target_named("cpu"), bench.sides);
  BOOST_TEST(result.ratios.at("slower") == 3.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(result.ratio_intervals.at("slower").lower == 3.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(result.ratio_intervals.at("slower").upper == 3.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(result.ratios.count("broken") == 0U);
}

BOOST_AUTO_TEST_CASE(timing_beside_a_contender_ends_when_the_difference_is_plain) {
  FakeSession::Behaviour fast, slow, same;
  fast.seconds = {1.00e-3, 1.05e-3, 1.02e-3};
  slow.seconds = {3.1e-3, 2.9e-3};
  Bench plain;
  plain.add("variant", fast);
  plain.add("contender", slow);
  BOOST_REQUIRE(!plain.sample({.max_samples = 30, .until_clear = true}));
  BOOST_TEST(plain.sides[0].samples.size() == 5U);
  Bench even;
  even.add("variant", fast);
  even.add("contender", fast);
  BOOST_REQUIRE(!even.sample({.max_samples = 30, .until_clear = true}));
  BOOST_TEST(even.sides[0].samples.size() == 30U);
  // A small gain in every pair: plain when chance would do that less than once in 1000 cases.
  const auto samples = [](std::vector<double> seconds) {
    std::vector<Sample> all;
    for (const double s : seconds) all.push_back({.seconds = s});
    return all;
  };
  std::vector<double> ours, theirs;
  for (int i = 0; i < 10; ++i) ours.push_back(1.0 + 0.1 * i), theirs.push_back(1.01 + 0.1 * i);
  BOOST_TEST(!clear_difference(samples(ours), samples(theirs)));
  ours.push_back(1.0), theirs.push_back(1.01);
  BOOST_TEST(clear_difference(samples(ours), samples(theirs)));
}

BOOST_AUTO_TEST_CASE(no_two_runs_have_the_same_inputs_or_share_a_row) {
  InputPool pool(softmax(), shape(64, 256), 3);
  std::set<std::vector<std::byte>> rows;
  std::size_t expected = 0;
  for (int run = 0; run < 40; ++run) {
    pool.next();
    const std::span<const std::byte> window = pool.inputs()[0].bytes;
    const std::vector<std::byte> bytes(window.begin(), window.end());
    for (std::size_t r = 0; r < 64; ++r)
      rows.emplace(bytes.begin() + r * 1024, bytes.begin() + (r + 1) * 1024);
    BOOST_TEST(rows.size() == (expected += 64));
    std::vector<double> decoded(64 * 256);
    decode(Dtype::f32, bytes, decoded);
    BOOST_TEST(std::equal(decoded.begin(), decoded.end(), pool.view().values[0]));
  }
}

BOOST_AUTO_TEST_CASE(drawn_inputs_of_two_runs_share_no_elements_and_are_no_multiples_of_each_other) {
  InputPool pool(softmax(), shape(256, 1024), 3, std::make_shared<InputMemory>());
  const std::size_t count = 256 * 1024;
  std::set<float> seen;
  std::vector<float> last;
  std::size_t repeated = 0, drawn = 0, multiples = 0, shifts = 0;
  double sum = 0.0, squares = 0.0;
  for (int run = 0; run < 6; ++run) {
    pool.next();
    std::vector<float> now(count);
    std::memcpy(now.data(), pool.inputs()[0].bytes.data(), 4 * count);
    BOOST_TEST(pool.inputs()[0].bytes.size() == 4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      BOOST_TEST_REQUIRE(pool.view().values[0][i] == static_cast<double>(now[i]));
      sum += now[i], squares += static_cast<double>(now[i]) * now[i];
      if (i + 1 < count && !last.empty()) {
        multiples += std::abs(now[i] / now[i + 1] - last[i] / last[i + 1]) < 1e-6f;
        shifts += std::abs(now[i] - now[i + 1] - (last[i] - last[i + 1])) < 1e-6f;
      }
    }
    for (std::size_t i = 0; i < count; i += 7, ++drawn) repeated += !seen.insert(now[i]).second;
    last = std::move(now);
  }
  // A few, by chance.
  BOOST_TEST(repeated < drawn / 50);
  BOOST_TEST(multiples < 50U);
  BOOST_TEST(shifts < 50U);
  // The task's fill: mean 0, standard deviation 2.
  BOOST_TEST(std::abs(sum / (6.0 * count)) < 0.05);
  BOOST_TEST(std::abs(std::sqrt(squares / (6.0 * count)) - 2.0) < 0.05);
}

BOOST_AUTO_TEST_CASE(when_its_windows_are_used_up_a_pool_draws_new_numbers) {
  InputPool pool(softmax(), shape(2048, 2), 3);  // two residues only
  std::set<std::vector<std::byte>> seen;
  for (int run = 0; run < 20; ++run) {
    pool.next();
    const std::span<const std::byte> window = pool.inputs()[0].bytes;
    BOOST_TEST(seen.insert({window.begin(), window.end()}).second);
  }
}

BOOST_AUTO_TEST_SUITE_END()
