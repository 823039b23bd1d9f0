// SPDX-License-Identifier: Apache-2.0
// Whole evaluations through real worker processes.
// runs alone
// long: 80 s, evaluators/judge, evaluators/worker
// always: all but confirmation_runs_in_a_fresh*
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <thread>

#include "evaluators/check/oracle.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/worker/services_fixture.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(services)

BOOST_AUTO_TEST_CASE(the_naive_attention_is_checked_and_measured) {
  Services services("attention_forward");
  const Workload w = services.workload({{"B", 1},
                                        {"H", 4},
                                        {"H_kv", 1},
                                        {"S_q", 512},
                                        {"S_kv", 512},
                                        {"D", 64},
                                        {"causal", 1},
                                        {"scale", 0.125},
                                        {"window", 0},
                                        {"softcap", 0}});
  const EvaluateRequest request =
      services.request(kSource / "configs/tasks/attention_forward/seeds/naive.cpp", w);
  const Evaluation e = services.evaluate(request);
  BOOST_TEST(e.measured(), e.reason << "\n" << e.diagnostics);
  BOOST_TEST(e.fitness > 0.0);
  BOOST_TEST(e.unit == "GFLOPS");
  BOOST_REQUIRE(e.workloads.size() == 1U);
  BOOST_TEST(e.workloads[0].samples.size() == 5U);
  BOOST_TEST(e.workloads[0].q1_us <= e.workloads[0].median_us);
  BOOST_TEST(e.workloads[0].median_us <= e.workloads[0].q3_us);
  BOOST_TEST(e.workloads[0].value == services.task.flops(w) / e.workloads[0].median_us / 1e3,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(e.input_seed != 0U);
  BOOST_TEST(e.machine_code.size() == 64U);
  BOOST_TEST(services.evaluate(request).input_seed != e.input_seed);
}

BOOST_AUTO_TEST_CASE(a_far_slower_variant_stops_early_with_its_true_count) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.screening_samples = 20;
  request.incumbent_us["w"] = 1.0;
  const Evaluation e = softmax().evaluate(request);
  BOOST_TEST(e.measured(), e.reason);
  BOOST_REQUIRE(e.workloads.size() == 1U);
  BOOST_TEST(e.workloads[0].samples.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_contender_is_timed_in_turn_and_gives_a_ratio) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.sampling.max_samples = 6;
  const auto contender = softmax().compiler.compile(load_variant(kSlow, softmax().task), request.workloads);
  BOOST_REQUIRE_MESSAGE(contender, words(contender));
  request.contenders.emplace_back("itself", *contender);
  const Evaluation e = softmax().evaluate(request);
  BOOST_TEST(e.measured(), e.reason);
  BOOST_REQUIRE(e.workloads.size() == 1U);
  BOOST_REQUIRE(e.workloads[0].ratios.count("itself") == 1U);
  BOOST_TEST(e.workloads[0].ratios.at("itself") > 0.4);
  BOOST_TEST(e.workloads[0].ratios.at("itself") < 2.5);
}

BOOST_AUTO_TEST_CASE(confirmation_runs_in_a_fresh_process_and_checks_the_holdout_shapes) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.stop_after = Stage::confirm;
  std::vector<std::string> seen;
  const auto before = children();
  const auto e = softmax().device.evaluate(request, [&](const std::string& text) { seen.push_back(text); });
  BOOST_REQUIRE(e);
  BOOST_TEST(e->measured(), e->reason);
  BOOST_TEST((e->stage == Stage::confirm));
  BOOST_TEST((children() != before));
}

BOOST_AUTO_TEST_CASE(each_step_of_an_evaluation_is_told_however_short_the_one_before_was) {
  EvaluateRequest request = softmax().request(kSlow, rows_and_columns(2048, 1024));
  request.every_row = request.exactness = true;
  std::vector<std::string> seen;
  const auto e = softmax().device.evaluate(request, [&](const std::string& text) { seen.push_back(text); });
  BOOST_REQUIRE_MESSAGE(e, words(e));
  const auto checked = std::ranges::find(seen, "measure w: every row");
  BOOST_REQUIRE(checked != seen.begin());
  BOOST_REQUIRE(checked != seen.end());
  BOOST_TEST(std::prev(checked)->starts_with("exactness "), *std::prev(checked));
  BOOST_REQUIRE(std::next(checked) != seen.end());
  BOOST_TEST(*std::next(checked) == "measure w");
}

BOOST_AUTO_TEST_CASE(the_gate_runs_its_blocks_and_every_side_of_them) {
  GateRequest request;
  request.challenger = request.incumbent = request.control =
      softmax().request(kSlow, rows_and_columns(2048, 1024)).variant;
  request.workloads = {rows_and_columns(2048, 1024)};
  request.options.max_device_seconds = 1.0;
  request.seed = 7;
  const auto report = softmax().device.gate(request);
  BOOST_REQUIRE_MESSAGE(report, words(report));
  BOOST_TEST(report->trouble.empty());
  BOOST_TEST((report->decision.verdict != Verdict::better));
  BOOST_TEST(report->decision.blocks + report->decision.batches > 0);
  BOOST_REQUIRE(report->challenger_seconds.size() == 1U);
  BOOST_TEST(report->challenger_seconds[0] > 0.0);
  BOOST_TEST(report->incumbent_seconds[0] > 0.0);
}

BOOST_AUTO_TEST_CASE(a_duel_that_is_no_longer_needed_ends_with_its_times_and_can_go_on) {
  GateRequest request;
  request.challenger = request.incumbent = request.control =
      softmax().request(kSlow, rows_and_columns(2048, 1024)).variant;
  request.workloads = {rows_and_columns(2048, 1024)};
  request.options.min_gain = 0.0;  // a gain of 0 is never ruled out
  request.options.max_device_seconds = 600.0;
  request.seed = 7;
  request.enough = std::make_shared<std::atomic<bool>>(true);
  const auto report = softmax().device.gate(request);
  BOOST_REQUIRE_MESSAGE(report, words(report));
  BOOST_TEST((report->decision.verdict == Verdict::undecided));
  BOOST_TEST(report->decision.reason.find("no longer needed") != std::string::npos, report->decision.reason);
  BOOST_REQUIRE(!report->times.blocks.empty());
  BOOST_TEST(report->decision.device_seconds < 300.0);
  request.earlier = report->times;
  request.enough.reset();
  request.options.max_device_seconds = report->decision.device_seconds + 0.5;
  const auto more = softmax().device.gate(request);
  BOOST_REQUIRE_MESSAGE(more, words(more));
  BOOST_TEST(more->trouble.empty());
  BOOST_TEST(more->decision.blocks + more->decision.batches >
             report->decision.blocks + report->decision.batches);
}

BOOST_AUTO_TEST_CASE(a_challenger_that_cheats_in_the_duel_is_worse) {
  GateRequest request;
  const Workload w = rows_and_columns(8192, 1024);
  request.incumbent = request.control = softmax().request(kHonest, w).variant;
  request.challenger =
      softmax().request(kSource / "tests/kernels/cheats/skips_work_on_large_inputs.cpp", w).variant;
  request.workloads = {w};
  request.options.max_device_seconds = 1.0;
  const auto report = softmax().device.gate(request);
  BOOST_REQUIRE_MESSAGE(report, words(report));
  BOOST_TEST((report->decision.verdict == Verdict::worse));
  BOOST_REQUIRE(report->trouble.size() == 1U);
  BOOST_TEST(report->trouble[0].find("challenger") != std::string::npos, report->trouble[0]);
}

BOOST_AUTO_TEST_CASE(a_variant_that_does_not_claim_the_workload_is_refused_before_anything_runs) {
  const auto compiled = softmax().compiler.compile(load_variant(kHonest, softmax().task), {[] {
                                                     Workload w = rows_and_columns(64, 64);
                                                     w.dtype = Dtype::f64;
                                                     return w;
                                                   }()});
  BOOST_REQUIRE(!compiled);
  BOOST_TEST((compiled.error().stage == Stage::lint));
}

BOOST_AUTO_TEST_CASE(what_compiles_for_some_shapes_alone_is_refused_with_what_the_others_have_of_their_own) {
  Services services("attention_forward");
  std::ifstream seed(kSource / "configs/tasks/attention_forward/seeds/tiled.cpp");
  std::ostringstream text;
  text << seed.rdbuf();
  std::string source = text.str();
  source.insert(source.find("---*/") + 6, "#if D == 96\n#error \"too wide\"\n#endif\n");
  auto variant = make_variant(source, services.task, {});
  BOOST_REQUIRE(variant.has_value());
  const std::map<std::string, double> least = {{"B", 1},    {"H", 1},      {"H_kv", 1},   {"S_q", 8},
                                               {"S_kv", 8}, {"window", 0}, {"softcap", 0}};
  const auto of_width = [&](double width) {
    auto values = least;
    values["D"] = width;
    values["causal"] = 0;
    values["scale"] = 0.125;
    return services.workload(values);
  };
  const auto compiled = services.compiler.compile(*variant, {of_width(64), of_width(96)});
  BOOST_REQUIRE(!compiled);
  BOOST_TEST(compiled.error().reason.ends_with(", with D=96"), compiled.error().reason);
}

BOOST_AUTO_TEST_CASE(a_variant_of_another_target_is_refused_even_where_its_source_would_compile) {
  Variant variant = load_variant(kHonest, softmax().task);
  variant.manifest.target = target_named("cuda");
  const auto compiled = softmax().compiler.compile(variant, {rows_and_columns(64, 64)});
  BOOST_REQUIRE(!compiled);
  BOOST_TEST((compiled.error().stage == Stage::lint));
  BOOST_TEST(compiled.error().reason.find("--target cuda") != std::string::npos, compiled.error().reason);
}

BOOST_AUTO_TEST_CASE(a_task_whose_references_differ_is_refused_when_the_worker_loads_it) {
  std::string name = (fs::temp_directory_path() / "cultivar-loose-XXXXXX").string();
  BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
  const fs::path folder = fs::path(name) / "softmax";
  fs::copy(kSource / "configs/tasks/softmax", folder, fs::copy_options::recursive);
  // Replaces the model of the permitted roundings by one that allows everything.
  std::ifstream in(folder / "reference.cpp");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  in.close();
  const std::string model = "void reference_row_rounded";
  BOOST_REQUIRE(text.find(model) != std::string::npos);
  text.replace(text.find(model), model.size(), "void unused");
  std::ofstream(folder / "reference.cpp") << text << R"(
extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t, double* out) {
  for (std::int64_t c = 0; c < args.integer("C"); ++c) out[c] = 1e6;
}
)";
  ServiceOptions options = options_for("softmax");
  options.task_folder = folder;
  DeviceService device(options);
  const auto info = device.info();
  BOOST_REQUIRE(!info);
  BOOST_TEST(info.error().message.find("differ by far more than roundings") != std::string::npos,
             info.error().message);
  fs::remove_all(name);
}

BOOST_AUTO_TEST_CASE(an_oracle_that_does_not_end_is_named_while_it_runs_and_in_the_error) {
  std::string name = (fs::temp_directory_path() / "cultivar-endless-XXXXXX").string();
  BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
  const fs::path folder = fs::path(name) / "softmax";
  fs::copy(kSource / "configs/tasks/softmax", folder, fs::copy_options::recursive);
  std::ofstream(folder / "reference.cpp") << R"(#include "cultivar_reference.hpp"
extern "C" void reference_row(const ReferenceArgs&, std::int64_t, double* out) {
  for (volatile bool endless = true; endless;) out[0] = 0;
}
)";
  ServiceOptions options = options_for("softmax");
  options.task_folder = folder;
  options.start_deadline_s = 3.0;
  BOOST_REQUIRE(open_reference(load_task(folder), options.cache));  // compiling may take as long
  DeviceService device(options);
  std::vector<std::string> steps;
  const auto info = device.info([&](const std::string& step) { steps.push_back(step); });
  BOOST_REQUIRE(!info);
  const std::string file = (folder / "reference.cpp").string(), said = info.error().message;
  BOOST_REQUIRE(!steps.empty());
  BOOST_TEST(steps.back().starts_with("the oracle: the exact rows of " + file + " on "), steps.back());
  BOOST_TEST(said.starts_with("the task was not ready within 3 s. Last step: " + steps.back()), said);
  BOOST_TEST(said.find("Look there for a loop that does not end") != std::string::npos, said);
  fs::remove_all(name);
}

BOOST_AUTO_TEST_SUITE_END()
