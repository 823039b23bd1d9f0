// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/evaluation.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(evaluation)

BOOST_AUTO_TEST_CASE(what_goes_into_json_comes_out_again) {
  Evaluation e;
  e.verdict = Evaluation::Verdict::measured;
  e.stage = Stage::measure;
  e.diagnostics = "a note";
  e.machine_code = "abc";
  e.resources.values = {{"text_bytes", 640}};
  e.resources.shares = {{"float_share", 40}};
  e.fitness = 12.5;
  e.unit = "GFLOPS";
  e.input_seed = 77;
  e.compile_seconds = 1, e.check_seconds = 2, e.measure_seconds = 3;
  e.worker_lost = true;
  e.late = true;
  e.workloads.push_back({"w",
                         {{1e-3, 2100, 50, 300, 4, ""}, {2e-3, 0, 0, 0, 0, ""}},
                         1500,
                         1250,
                         1750,
                         12.5,
                         "GFLOPS",
                         {{"eigen", 1.3}},
                         3});
  e.coverage = Coverage{12, 11, 2, 40, {{"D=256", "variant.cpp", 959, 975, 1}}, {"why"}};
  const nlohmann::json j = e;
  BOOST_TEST(j.at("verdict") == "measured");
  BOOST_TEST(j.at("stage") == "measure");
  BOOST_TEST(j.at("workloads").at(0).at("name") == "w");
  BOOST_TEST(j.at("workloads").at(0).at("samples") == 2);
  BOOST_TEST(j.at("workloads").at(0).at("median_us") == 1500.0);
  BOOST_TEST(j.at("workloads").at(0).at("ratios").at("eigen") == 1.3);
  const Evaluation back = nlohmann::json::parse(j.dump()).get<Evaluation>();
  BOOST_TEST((nlohmann::json(back) == j));
  BOOST_REQUIRE(back.coverage);
  BOOST_TEST((back.coverage->not_run == e.coverage->not_run));
  BOOST_TEST(back.resources.shares.at("float_share") == 40.0);
  BOOST_TEST(back.workloads.at(0).samples.at(0).throttle == 4U);
  BOOST_TEST(back.workloads.at(0).discarded == 3);
  BOOST_TEST(back.workloads.at(0).samples.at(1).seconds == 2e-3);
}

BOOST_AUTO_TEST_CASE(an_older_record_has_no_shares_of_instructions) {
  nlohmann::json j = Evaluation{};
  BOOST_TEST(!j.contains("instruction_shares"));
  BOOST_TEST(j.get<Evaluation>().resources.shares.empty());
}

BOOST_AUTO_TEST_CASE(troubles_of_contenders_are_fields_and_words_and_may_be_absent) {
  using Kind = ContenderTrouble::Kind;
  Evaluation e;
  e.verdict = Evaluation::Verdict::measured;
  BOOST_TEST(!nlohmann::json(e).contains("contender_troubles"));
  e.add({"a: b", Kind::unusable, "it cannot be used", "built with version 0\nthe second line"});
  e.add({"eigen", Kind::failed, "wrong result on w", ""});
  BOOST_TEST(e.diagnostics ==
             "contender a: b: it cannot be used\nbuilt with version 0\nthe second line\n"
             "contender eigen: wrong result on w\n");
  BOOST_TEST(e.contender_troubles[0].line() == "contender a: b: it cannot be used (built with version 0)");
  BOOST_TEST(e.contender_troubles[1].line() == "contender eigen: wrong result on w");
  nlohmann::json j = e;
  const auto back = j.get<Evaluation>();
  BOOST_REQUIRE(back.contender_troubles.size() == 2U);
  BOOST_TEST(back.contender_troubles[0].contender == "a: b");
  BOOST_TEST((back.contender_troubles[0].kind == Kind::unusable));
  BOOST_TEST((back.contender_troubles[1].kind == Kind::failed));
  BOOST_TEST((nlohmann::json(back) == j));
  j.erase("contender_troubles");  // as earlier versions wrote it
  BOOST_TEST(j.get<Evaluation>().contender_troubles.empty());
  BOOST_TEST(j.get<Evaluation>().diagnostics == e.diagnostics);
}

BOOST_AUTO_TEST_CASE(json_that_is_no_evaluation_is_refused) {
  const nlohmann::json good = rejection(Stage::smoke, "crashed", "SIGSEGV");
  BOOST_TEST(good.get<Evaluation>().reason == "crashed");
  for (const char* key : {"verdict", "stage", "workloads", "fitness"}) {
    nlohmann::json bad = good;
    bad.erase(key);
    BOOST_CHECK_THROW(bad.get<Evaluation>(), nlohmann::json::exception);
    bad[key] = "nonsense";
    BOOST_CHECK_THROW(bad.get<Evaluation>(), nlohmann::json::exception);
  }
}

BOOST_AUTO_TEST_CASE(every_stage_has_a_name_that_finds_it) {
  for (int i = 0; i <= static_cast<int>(Stage::confirm); ++i)
    BOOST_TEST((stage_named(name_of(static_cast<Stage>(i))) == static_cast<Stage>(i)));
  BOOST_TEST(!stage_named("nonsense").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
