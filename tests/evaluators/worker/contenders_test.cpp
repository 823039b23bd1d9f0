// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 60 s, evaluators/contenders, evaluators/timing
// Contender libraries beside a variant, through real worker processes: a correct one gets a figure, a wrong
// one is skipped with the reason, and one that crashes the worker affects nothing else.
#include <boost/test/unit_test.hpp>

#include "evaluators/worker/services.hpp"
#include "support/contains.hpp"
#include "support/contenders.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::TemporaryFolder;
using cultivar::testing::words;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = CULTIVAR_SOURCE_DIR;

ServiceOptions options() {
  ServiceOptions o;
  o.programs = CULTIVAR_BIN_DIR;
  o.cache = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";
  o.task_folder = kSource / "configs/tasks/softmax";
  o.run_deadline_s = 3.0;
  return o;
}

Workload shape(const std::string& name, double rows, double columns) {
  Workload w;
  w.name = name;
  w.dtype = Dtype::f32;
  w.values = {{"R", rows}, {"C", columns}};
  return w;
}

struct Services {
  TemporaryFolder folder;
  Task task = load_task(kSource / "configs/tasks/softmax");
  CompileService compiler{options()};
  DeviceService device{options()};

  Compiled library(const std::string& macro, const std::string& name = "") {
    const fs::path file = testing::contender_library(folder.path(), macro, name);
    return library_contender(file.stem().string(), {file}, target_named("cpu"));
  }
  EvaluateRequest request(const std::vector<std::string>& macros) {
    EvaluateRequest r;
    r.workloads = {shape("even", 2048, 1000), shape("odd", 1500, 1111)};
    auto compiled =
        compiler.compile(load_variant(kSource / "tests/kernels/slow_softmax.cpp", task), r.workloads);
    BOOST_REQUIRE_MESSAGE(compiled, words(compiled));
    r.variant = *compiled;
    r.sampling.max_samples = 6;
    r.seed = 1;
    for (const std::string& macro : macros) {
      Compiled made = library(macro);
      r.contenders.emplace_back(made.variant.manifest.name, std::move(made));
    }
    return r;
  }
  Evaluation judged(const std::vector<std::string>& macros) {
    const auto e = device.evaluate(request(macros));
    BOOST_REQUIRE_MESSAGE(e, words(e));
    BOOST_TEST(e->measured(), e->reason << "\n" << e->diagnostics);
    BOOST_REQUIRE(e->workloads.size() == 2U);
    for (const WorkloadResult& w : e->workloads) BOOST_TEST(w.samples.size() >= 5U);
    return *e;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(contenders, Services)

BOOST_AUTO_TEST_CASE(a_right_one_is_timed_in_turn_on_every_workload) {
  const Evaluation e = judged({""});
  for (const WorkloadResult& w : e.workloads) {
    BOOST_REQUIRE(w.ratios.count("libplain") == 1U);
    BOOST_TEST(w.ratios.at("libplain") > 0.1);
    BOOST_TEST(w.ratios.at("libplain") < 100.0);
  }
  BOOST_TEST(!contains(e.diagnostics, "contender"), e.diagnostics);
  BOOST_TEST(!e.worker_lost);
}

BOOST_AUTO_TEST_CASE(exactness_is_measured_beside_the_contenders_for_every_distribution) {
  EvaluateRequest r = request({"", "WRONG"});
  r.workloads.resize(1);
  r.exactness = true;
  r.stop_after = Stage::edge;
  const auto e = device.evaluate(r);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_REQUIRE_MESSAGE(e->measured(), e->reason << e->diagnostics);
  BOOST_REQUIRE(e->exactness.size() == 1U + task.stress.size());
  BOOST_TEST(e->exactness[0].distribution == "ordinary");
  for (const Exactness& x : e->exactness) {
    BOOST_TEST_INFO(x.distribution);
    BOOST_TEST(x.error.max < 20.0);
    BOOST_TEST(x.error.rms < 20.0);  // f32: sums in another order count here, but not in of_allowed
    BOOST_TEST(x.of_allowed < 2.0);
    BOOST_REQUIRE(x.contenders.contains("libplain"));
    BOOST_TEST(x.contenders.at("libplain").rms < 20.0);
  }
  BOOST_TEST(e->exactness[0].error.rms > 0.0);
  BOOST_TEST(e->exactness[0].contenders.at("libWRONG").rms > 100.0);
}

BOOST_AUTO_TEST_CASE(a_wrong_contender_is_skipped_with_the_reason_and_others_are_timed) {
  const Evaluation e = judged({"WRONG", "", "LEAVES_SOME"});
  for (const WorkloadResult& w : e.workloads) {
    BOOST_TEST(w.ratios.size() == 1U);
    BOOST_TEST(w.ratios.count("libplain") == 1U);
  }
  BOOST_TEST(contains(e.diagnostics, "contender libWRONG: wrong result on even: "), e.diagnostics);
  BOOST_TEST(contains(e.diagnostics, "contender libLEAVES_SOME: "), e.diagnostics);
}

BOOST_AUTO_TEST_CASE(one_that_refuses_a_workload_is_timed_on_the_others) {
  const Evaluation e = judged({"REFUSES"});
  BOOST_TEST(e.workloads[0].ratios.count("libREFUSES") == 1U);
  BOOST_TEST(e.workloads[1].ratios.count("libREFUSES") == 0U);
  BOOST_TEST(contains(e.diagnostics, "contender libREFUSES: unsupported on odd\nodd: 1000 columns alone"),
             e.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_contender_that_crashes_is_named_and_the_run_continues_without_it) {
  const Evaluation e = judged({"CRASHES", ""});
  for (const WorkloadResult& w : e.workloads) {
    BOOST_TEST(w.ratios.count("libCRASHES") == 0U);
    BOOST_TEST(w.ratios.count("libplain") == 1U);
  }
  BOOST_TEST(
      contains(
          e.diagnostics,
          "contender libCRASHES: the worker was lost in a call of its library; the contender is skipped"),
      e.diagnostics);
  BOOST_TEST(contains(e.diagnostics, "run on even"), e.diagnostics);
  BOOST_TEST(contains(e.diagnostics, "SIGSEGV"), e.diagnostics);
  BOOST_TEST(!e.worker_lost);  // nothing to be said of the variant
}

BOOST_AUTO_TEST_CASE(a_contender_that_hangs_is_named_and_the_run_continues_without_it) {
  const Evaluation e = judged({"HANGS"});
  BOOST_TEST(
      contains(e.diagnostics, "the contender plain did not return from cultivar_contender_launch within 3 s"),
      e.diagnostics);
}

BOOST_AUTO_TEST_CASE(one_that_crashes_when_it_is_released_is_named_too) {
  const Evaluation e = judged({"ENDS_BADLY", ""});
  BOOST_TEST(
      contains(
          e.diagnostics,
          "contender libENDS_BADLY: the worker was lost in a call of its library; the contender is skipped"),
      e.diagnostics);
  BOOST_TEST(contains(e.diagnostics, "release on even"), e.diagnostics);
  BOOST_TEST(e.workloads[0].ratios.count("libplain") == 1U);
  BOOST_TEST(!e.worker_lost);
}

BOOST_AUTO_TEST_CASE(one_that_strikes_after_it_has_returned_costs_the_variant_nothing) {
  const Evaluation e = judged({"STRIKES_LATER"});
  BOOST_TEST((contains(e.diagnostics, "contender libSTRIKES_LATER: the worker was lost") ||
              contains(e.diagnostics, "contender libSTRIKES_LATER: its library was loaded")),
             e.diagnostics);
  BOOST_TEST(contains(e.diagnostics, "the contender is skipped"), e.diagnostics);
}

BOOST_AUTO_TEST_CASE(an_error_text_without_end_is_cut) {
  const Evaluation e = judged({"TALKS"});
  BOOST_TEST(contains(e.diagnostics, "contender libTALKS: contender failed on even\neven: eeee"),
             e.diagnostics.substr(0, 300));
  BOOST_TEST(e.diagnostics.size() < 20000U);
}

BOOST_AUTO_TEST_CASE(a_name_with_a_colon_is_still_that_name) {
  EvaluateRequest r = request({});
  for (const char* name : {"a", "a: b"}) {
    const Compiled made = library(name == std::string("a") ? "" : "CRASHES", name);
    r.contenders.emplace_back(made.variant.manifest.name, made);
  }
  const auto e = device.evaluate(r);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_TEST(e->measured(), e->reason << e->diagnostics);
  BOOST_TEST(
      contains(e->diagnostics,
               "contender liba: b: the worker was lost in a call of its library; the contender is skipped"),
      e->diagnostics);
  BOOST_REQUIRE(e->contender_troubles.size() == 1U);
  BOOST_TEST(e->contender_troubles[0].contender == "liba: b");
  BOOST_TEST((e->contender_troubles[0].kind == ContenderTrouble::Kind::left_out));
  for (const WorkloadResult& w : e->workloads) BOOST_TEST(w.ratios.count("liba") == 1U);
}

BOOST_AUTO_TEST_CASE(a_library_that_is_not_a_contender_is_reported_and_the_run_continues) {
  const Evaluation e = judged({"OLD_ABI"});
  BOOST_TEST(contains(e.diagnostics, "contender libOLD_ABI: the contender cannot be used\n"), e.diagnostics);
  BOOST_REQUIRE(e.contender_troubles.size() == 1U);
  BOOST_TEST((e.contender_troubles[0].kind == ContenderTrouble::Kind::unusable));
  const std::size_t said = e.diagnostics.find("built with version 0");
  BOOST_TEST(said != std::string::npos, e.diagnostics);
  BOOST_TEST(e.diagnostics.find("built with version 0", said + 1) ==
             std::string::npos);  // once, not by workload
}

BOOST_AUTO_TEST_CASE(a_python_that_is_absent_or_has_no_pytorch_is_reported_once_with_the_remedy) {
  const fs::path host = fs::path(CULTIVAR_BIN_DIR) / "../lib/libcultivar-contender-python.so";
  EvaluateRequest r = request({});
  r.contenders.emplace_back("torch", library_contender("torch", {host, "torch"}, target_named("cpu")));
  ServiceOptions without = options();
  without.python = "/no/such/python3";
  DeviceService absent(without);
  const auto e = absent.evaluate(r);
  BOOST_REQUIRE_MESSAGE(e, words(e));
  BOOST_TEST(e->measured(), e->reason << e->diagnostics);
  BOOST_REQUIRE(e->contender_troubles.size() == 1U);  // not one for each workload
  BOOST_TEST((e->contender_troubles[0].kind == ContenderTrouble::Kind::unusable));
  BOOST_TEST(contains(e->diagnostics, "evaluation.python"), e->diagnostics);

  const fs::path bare = folder / "bare";  // a virtual environment without packages
  if (testing::run_command({"/usr/bin/python3", "-m", "venv", "--without-pip", bare.string()}).exit != 0)
    return;
  without.python = bare / "bin/python3";
  DeviceService lacking(without);
  const auto lacks = lacking.evaluate(r);
  BOOST_REQUIRE_MESSAGE(lacks, words(lacks));
  BOOST_TEST(lacks->measured(), lacks->reason << lacks->diagnostics);
  BOOST_REQUIRE(lacks->contender_troubles.size() == 1U);
  const bool told =
      contains(lacks->diagnostics, "bare/bin/python3 has no PyTorch (No module named 'torch')") ||
      contains(lacks->diagnostics, "whose shared library");
  BOOST_TEST(told, lacks->diagnostics);
}

BOOST_AUTO_TEST_CASE(the_gate_takes_a_library_for_a_side_and_checks_it) {
  GateRequest gate;
  const EvaluateRequest r = request({});
  gate.challenger = r.variant;
  gate.incumbent = gate.control = library("");
  gate.workloads = {r.workloads[0]};
  gate.options.max_device_seconds = 1.0;
  const auto report = device.gate(gate);
  BOOST_REQUIRE_MESSAGE(report, words(report));
  BOOST_TEST(report->trouble.empty());
  BOOST_TEST(report->decision.blocks + report->decision.batches > 0);
  BOOST_TEST(report->incumbent_seconds[0] > 0.0);

  gate.incumbent = gate.control = library("WRONG");
  const auto refused = device.gate(gate);
  BOOST_REQUIRE_MESSAGE(refused, words(refused));
  BOOST_REQUIRE(refused->trouble.size() == 1U);
  BOOST_TEST(contains(refused->trouble[0], "incumbent: wrong result on even"), refused->trouble[0]);
  BOOST_TEST((refused->decision.verdict == Verdict::undecided));

  gate.incumbent = gate.control = library("CRASHES");
  const auto crashed = device.gate(gate);
  BOOST_REQUIRE_MESSAGE(crashed, words(crashed));
  BOOST_REQUIRE(crashed->trouble.size() == 1U);
  BOOST_TEST(contains(crashed->trouble[0], "last activity: contender libCRASHES: run on even"),
             crashed->trouble[0]);
  BOOST_TEST((crashed->decision.verdict == Verdict::undecided));
}

BOOST_AUTO_TEST_SUITE_END()
