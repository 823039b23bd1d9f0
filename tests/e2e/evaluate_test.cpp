// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 160 s, engine/cli
// Evaluation outside a search: the JSON that scripts rely on, messages of rejections, the gate between two
// variants.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <regex>

#include "support/own_task.hpp"
#include "support/places.hpp"

using namespace cultivar::testing;

namespace {

struct OwnTask {
  TemporaryFolder folder;
  OwnTask() { write_own_task(folder.path(), "{evaluations: 1}"); }
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(evaluate, OwnTask)

BOOST_AUTO_TEST_CASE(a_measured_variant_has_every_promised_field) {
  const auto result = run(
      {"evaluate", "rms_norm", "blocked@LANES=16", "--workloads", "small", "--contender", "plain", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 0);
  const auto list = facts(result);
  BOOST_TEST_REQUIRE(list.size() == 1u);
  const auto& one = list[0];
  for (const char* field : {"variant", "id", "verdict", "stage", "reason", "diagnostics", "resources",
                            "fitness", "unit", "workloads", "profile"})
    BOOST_TEST(one.contains(field), field << " is there");
  BOOST_TEST(one["verdict"] == "measured");
  BOOST_TEST(one["variant"] == "blocked@LANES=16");
  BOOST_TEST(one["id"].get<std::string>().size() == 64u);
  BOOST_TEST(one["unit"] == "GB/s");
  BOOST_TEST(one["fitness"].get<double>() > 0.0);
  BOOST_TEST_REQUIRE(one["workloads"].size() == 2u);
  for (const auto& w : one["workloads"]) {
    for (const char* field : {"name", "median_us", "q1_us", "q3_us", "samples", "value", "unit", "ratios"})
      BOOST_TEST(w.contains(field), field << " is there");
    BOOST_TEST(w["q1_us"].get<double>() <= w["median_us"].get<double>());
    BOOST_TEST(w["median_us"].get<double>() <= w["q3_us"].get<double>());
    BOOST_TEST(w["samples"].get<int>() >= 3);
    BOOST_TEST(w["ratios"]["plain"].get<double>() > 0.0);
  }
}

BOOST_AUTO_TEST_CASE(a_profile_reports_the_roofline_the_machine_code_and_the_differences) {
  const auto result =
      run({"profile", "blocked@LANES=16", "--task", "rms_norm", "--against", "plain", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto all = facts(result);
  const auto& profile = all["profile"];
  BOOST_TEST(profile["target"] == "cpu");
  BOOST_TEST(profile["median_us"].get<double>() > 0.0);
  BOOST_TEST(profile["bytes_us"].get<double>() > 0.0);
  BOOST_TEST(profile["resources"]["text_bytes"].get<double>() > 0.0);
  BOOST_TEST(profile["kernels"].empty());  // nothing is reported that was not determined
  BOOST_TEST(all["report"]["headline"].get<std::string>().find("of this device's measured peak") !=
             std::string::npos);
  BOOST_TEST(all["against"]["changes"][0]["what"] == "median_us");
  BOOST_TEST(result.err.find("machine code:") != std::string::npos);  // in words beside the JSON
  const auto evaluated =
      run({"evaluate", "rms_norm", "plain", "--workloads", "small", "--profile", "--json"});
  BOOST_TEST_INFO(evaluated.err);
  BOOST_TEST_REQUIRE(evaluated.exit == 0);
  BOOST_TEST(facts(evaluated)[0]["profile"]["profile"]["median_us"].get<double>() > 0.0);
}

BOOST_AUTO_TEST_CASE(a_rejected_variant_says_where_and_why_and_ends_with_1) {
  const std::string kernels = CULTIVAR_SOURCE_DIR "/tests/kernels/";
  const auto result =
      run({"evaluate", "softmax", kernels + "hostile/does_not_compile.cpp",
           kernels + "cheats/writes_nothing.cpp", kernels + "hostile/unknown_tensor.cpp", "--json"});
  BOOST_TEST(result.exit == 1);
  const auto list = facts(result);
  BOOST_TEST_REQUIRE(list.size() == 3u);
  BOOST_TEST(list[0]["stage"] == "compile");
  // By the name that the user's file has, wherever it was compiled.
  BOOST_TEST(list[0]["reason"].get<std::string>().starts_with("does_not_compile.cpp:"));
  BOOST_TEST(list[0]["diagnostics"].get<std::string>().find("variant.cpp") == std::string::npos);
  BOOST_TEST(list[1]["verdict"] == "rejected");
  BOOST_TEST(list[1]["stage"] == "smoke");
  BOOST_TEST(list[2]["stage"] == "lint");
  for (const auto& one : list) BOOST_TEST(one["reason"].get<std::string>() != "");
}

BOOST_AUTO_TEST_CASE(what_a_variant_may_not_claim_is_said_without_running_it) {
  const std::string dodge = CULTIVAR_SOURCE_DIR "/tests/kernels/dodges/does_not_claim_a_holdout.cpp";
  for (const char* stage : {"lint", "screen"}) {
    const auto result = run({"evaluate", "softmax", dodge, "--stop-after", stage, "--json"});
    BOOST_TEST(result.exit == 1);
    BOOST_TEST(facts(result)[0]["stage"] == "lint");
    BOOST_TEST(facts(result)[0]["reason"] == "`requires` singles out R3001_C1333_f32");
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_compiled_for_each_shape_is_confirmed) {
  copy_task("attention_forward", folder / "attention", "      - {B: 1, H: 4, S_q: 1024, D: 64}\n");
  const auto result =
      run({"evaluate", "attention", "tiled", "vectorised", "--stop-after", "confirm", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 0);
  for (const auto& one : facts(result)) {
    BOOST_TEST(one["verdict"] == "measured", one["reason"]);
    BOOST_TEST(one["stage"] == "confirm");
  }
}

BOOST_AUTO_TEST_CASE(an_early_stop_checks_but_does_not_time) {
  const auto list =
      facts(run({"evaluate", "rms_norm", "plain", "blocked", "--stop-after", "smoke", "--json"}));
  BOOST_TEST_REQUIRE(list.size() == 2u);
  for (const auto& one : list) {
    BOOST_TEST(one["verdict"] == "passed");
    BOOST_TEST(one["stage"] == "smoke");
    BOOST_TEST(one["workloads"].empty());
  }
}

BOOST_AUTO_TEST_CASE(options_that_contradict_each_other_are_bad_usage) {
  const std::string kernel = CULTIVAR_SOURCE_DIR "/tests/kernels/cuda/two_kernels.cu";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"evaluate", "rms_norm", "plain", "--stop-after", "smoke", "--profile"},
        {"evaluate", "rms_norm", "plain", "--contender", "plain", "--contender", "plain"},
        {"evaluate", "rms_norm", "blocked@LANES=16,LANES=8", "--stop-after", "lint"},
        {"evaluate", "softmax", kernel, "--target", "cuda", "--stop-after", "screen", "--arch", "90"}})
    BOOST_TEST(run(words).exit != 0, words.back());
}

BOOST_AUTO_TEST_CASE(a_kernel_of_another_target_is_rejected_at_lint) {
  const std::string kernel = CULTIVAR_SOURCE_DIR "/tests/kernels/cuda/two_kernels.cu";
  const auto result = run({"evaluate", "softmax", kernel, "--json"});
  BOOST_TEST(result.exit == 1);
  const auto list = facts(result);
  BOOST_TEST(list[0]["stage"] == "lint");
  BOOST_TEST(list[0]["reason"].get<std::string>().find("use --target cuda") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_unknown_tunable_or_value_is_a_rejection_at_lint) {
  const auto list = facts(run({"evaluate", "rms_norm", "blocked@LANES=3", "blocked@LANE=2", "--json"}));
  BOOST_TEST_REQUIRE(list.size() == 2u);
  for (const auto& one : list) BOOST_TEST(one["stage"] == "lint");
}

BOOST_AUTO_TEST_CASE(compare_finds_the_faster_of_two_and_gives_intervals) {
  // Enough time for a busy machine.
  const std::vector<std::string> compare{"compare",     "rms_norm", "blocked@LANES=16", "plain",
                                         "--workloads", "small",    "--max-seconds",    "60"};
  std::vector<std::string> compare_as_json = compare;
  compare_as_json.emplace_back("--json");
  const auto result = run(compare_as_json);
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 0);
  const auto facts_ = facts(result);
  BOOST_TEST(facts_["verdict"] == "better");
  BOOST_TEST(facts_["lower"].get<double>() > 1.0);
  BOOST_TEST(facts_["ratio"].get<double>() > facts_["lower"].get<double>());
  BOOST_TEST(facts_["workloads"].size() == 2u);
  const auto words = run(compare);
  BOOST_TEST(words.out.find("A is better than B: ") != std::string::npos, words.out);
  // All its speeds are in one form.
  const bool as_ratios = std::regex_search(words.out, std::regex(R"(\dx)"));
  BOOST_TEST(as_ratios == !std::regex_search(words.out, std::regex(R"(\d %)")), words.out);
}

BOOST_AUTO_TEST_CASE(compare_tells_as_json_which_side_was_rejected_and_why) {
  const std::string wrong = read_text(folder / "rms_norm/seeds/plain.cpp");
  write_text(folder / "broken.cpp", wrong + "\nint broken(;\n");
  write_text(folder / "nothing.cpp", "int nothing;\n");
  for (const auto& [kernel, stage, exit] :
       {std::tuple{"broken.cpp", "compile", 1}, std::tuple{"nothing.cpp", "lint", 2}})
    for (const bool first : {true, false}) {
      const auto result = run({"compare", "rms_norm", first ? kernel : "plain", first ? "plain" : kernel,
                               "--workloads", "small", "--json"});
      BOOST_TEST(result.exit == exit);
      const auto said = facts(result);
      BOOST_TEST(said["verdict"] == "rejected");
      BOOST_TEST(said["side"] == (first ? "a" : "b"));
      BOOST_TEST(said["stage"] == stage);
      BOOST_TEST(!said["reason"].get<std::string>().empty());
      BOOST_TEST(result.err.find(std::string(kernel) + " is rejected") != std::string::npos, result.err);
    }
}

BOOST_AUTO_TEST_CASE(a_step_without_news_is_reported_every_ten_seconds_with_its_time) {
  // Each value costs the compiler as many operations as it is willing to do.
  std::ofstream(folder.path() / "slow.cpp") << R"(/*--- cultivar
name: slow
task: softmax
target: cpu
launch: [{kernel: slow, args: [x, y]}]
---*/
template <int N> constexpr unsigned slow() {
  unsigned s = N;
  for (int i = 0; i < 1000; ++i)
    for (int j = 0; j < 2000; ++j) s = s * 1664525u + 1013904223u;
  return s;
}
template <int N> struct Slow { static constexpr unsigned value = slow<N>() ^ Slow<N - 1>::value; };
template <> struct Slow<0> { static constexpr unsigned value = 0; };
extern "C" void slow(const float* x, float* y) { y[0] = x[0] + (Slow<4>::value == 1); }
)";
  const auto result = run({"evaluate", "softmax", "slow.cpp", "--stop-after", "compile", "--json"});
  BOOST_TEST(result.exit == 1);
  BOOST_TEST(result.err.find("compiling slow (1") != std::string::npos, result.err);
}

BOOST_AUTO_TEST_CASE(the_digest_of_machine_code_covers_the_binary_of_each_workload) {
  std::string text = read_text(source_folder() / "configs/tasks/softmax/seeds/naive.cpp");
  const auto replace = [&](const std::string& old, const std::string& fresh) {
    text.replace(text.find(old), old.size(), fresh);
  };
  replace("let:", "specialize: [C]\nlet:");
  replace("R, C, thread", "R, thread");
  replace("int R, int C,", "int R,");
  write_text(folder / "one.cpp", text);
  replace("float sum = 0.0f;", "float sum = C == 4096 ? 1.0f : 0.0f;");  // the last workload's
  write_text(folder / "other.cpp", text);
  for (const char* stage : {"screen", "smoke"}) {
    const auto found =
        facts(run({"evaluate", "softmax", "one.cpp", "other.cpp", "--stop-after", stage, "--json"}));
    BOOST_TEST(found.at(0).at("machine_code") != found.at(1).at("machine_code"), stage);
  }
}

BOOST_AUTO_TEST_CASE(the_doctor_finds_this_machine_fit) {
  const auto result = run({"doctor", "--json"});
  BOOST_TEST(result.exit == 0);
  const auto report = facts(result);
  BOOST_TEST(report["cores"].get<int>() >= 1);
  BOOST_TEST(report["cpu"]["ceilings"]["flops"].get<double>() > 1e8);
  BOOST_TEST(report["cpu"]["ceilings"]["cold"].at(0)["bytes_per_second"].get<double>() > 1e8);
  BOOST_TEST(report["cpu"]["isolation"].get<std::string>() != "");
  bool cuda_missing = false;
  for (const auto& each : report["missing"]) cuda_missing = cuda_missing || each["what"] == "the cuda target";
  if (cuda_missing)
    BOOST_TEST(report["cuda_compiler"].is_null());
  else
    BOOST_TEST(report["cuda_compiler"].get<std::string>().starts_with("NVRTC "));
  if (!report["cuda"].get<bool>()) return;
  if (report["cuda_device"].is_null())
    BOOST_TEST(
        std::any_of(report["missing"].begin(), report["missing"].end(), [](const nlohmann::json& each) {
          return each["what"] == "the cuda target" ||
                 each["what"].get<std::string>().find("GPU") != std::string::npos;
        }));
  BOOST_TEST(report["cuda_devices"].size() >= 1u);
  for (const char* name : {"cublas", "cudnn", "flash_attention_3"})
    BOOST_TEST(
        (report["contenders"][name].contains("version") || report["contenders"][name].contains("trouble")));
}

BOOST_AUTO_TEST_SUITE_END()
