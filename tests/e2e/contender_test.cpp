// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 90 s, evaluators/contenders
// Contenders on the command line and in a configuration: a user's own library, built from the public header,
// beside a kernel; and the messages if there is none.
#include <boost/test/unit_test.hpp>

#include "evaluators/system/interpreter.hpp"
#include "support/contains.hpp"
#include "support/contenders.hpp"
#include "support/own_task.hpp"

using namespace cultivar::testing;

namespace {

// The task softmax of the user's own, with shapes that take a moment.
struct Desk {
  TemporaryFolder folder;
  Desk() {
    copy_task("softmax", folder / "own_softmax", "      - {R: 3000, C: 1500}\n      - {R: 3000, C: 1666}\n");
  }
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
  std::string library(const std::string& macro) {
    return contender_library(folder.path(), macro).filename().string();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(contender, Desk)

BOOST_AUTO_TEST_CASE(evaluate_times_a_library_beside_a_kernel_and_reports_those_that_fail) {
  const auto result = run({"evaluate", "own_softmax", "naive", "--contender", library(""), "--contender",
                           library("WRONG"), "--contender", library("CRASHES"), "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 0);
  const auto one = facts(result)[0];
  BOOST_TEST(one["verdict"] == "measured");
  for (const auto& w : one["workloads"]) {
    BOOST_TEST(w["ratios"].size() == 1u);
    BOOST_TEST(w["ratios"]["plain"].get<double>() > 0.0);
  }
  const std::string told = one["diagnostics"];
  BOOST_TEST(contains(told, "contender WRONG: wrong result on "), told);
  BOOST_TEST(
      contains(told,
               "contender CRASHES: the worker was lost in a call of its library; the contender is skipped"),
      told);

  const auto words = run({"evaluate", "own_softmax", "naive", "--contender", library("REFUSES")});
  BOOST_TEST(words.exit == 0);
  BOOST_TEST(contains(words.out, "contender REFUSES: unsupported on R3000_C1500_f32"), words.out);
  BOOST_TEST(contains(words.out, "1000 columns alone, and this is 1500"), words.out);

  const auto useless = run({"evaluate", "own_softmax", "naive", "--contender", library("OLD_ABI")});
  BOOST_TEST(useless.exit == 1);
  BOOST_TEST(contains(useless.out, "contender OLD_ABI: the contender cannot be used\n"), useless.out);
}

BOOST_AUTO_TEST_CASE(a_contender_that_cannot_be_used_is_told_before_the_work_and_also_if_nothing_is_timed) {
  for (const char* stage : {"lint", "smoke"}) {
    const auto result = run({"evaluate", "own_softmax", "naive", "--contender", library("LACKS_ITS_VENDOR"),
                             "--stop-after", stage, "--json"});
    BOOST_TEST(result.exit == 1);
    BOOST_TEST(contains(result.err,
                        "Warning: contender LACKS_ITS_VENDOR: the contender cannot be used: "
                        "libvendor.so.9 does not load: install it\n"),
               result.err);
    const auto one = facts(result)[0];
    BOOST_TEST(one["verdict"] == "passed");
    BOOST_TEST_REQUIRE(one["contender_troubles"].size() == 1u);
    BOOST_TEST(one["contender_troubles"][0]["kind"] == "unusable");
  }
  const auto torch = run({"evaluate", "own_softmax", "naive", "--contender", "torch", "--python",
                          "/no/such/python", "--stop-after", "lint"});
  BOOST_TEST(torch.exit == 1);
  BOOST_TEST(contains(torch.err, "the interpreter '/no/such/python' cannot be started"), torch.err);
}

BOOST_AUTO_TEST_CASE(a_syntax_error_of_a_python_contender_is_told_before_the_work) {
  if (!cultivar::find_interpreter("python3", cultivar::PythonNeeds::library))
    return;  // no Python, or none with a shared library
  write_text(folder / "mine.py", "def prepare(workload, tensors):\n    return 1 +\n");
  const auto result =
      run({"evaluate", "own_softmax", "naive", "--contender", "mine.py", "--stop-after", "lint"});
  BOOST_TEST(result.exit == 1);
  BOOST_TEST(contains(result.err, "Warning: contender mine: the contender cannot be used: "), result.err);
  BOOST_TEST(contains(result.err, "mine.py:2: SyntaxError: "), result.err);
}

BOOST_AUTO_TEST_CASE(compare_takes_a_library_for_a_side) {
  const auto result = run({"compare", "own_softmax", "naive", library(""), "--max-seconds", "3", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 0);
  const auto told = facts(result);
  BOOST_TEST(told["verdict"] != "worse");
  BOOST_TEST(told["ratio"].get<double>() > 1.0);
  BOOST_TEST(told["b_id"].get<std::string>().size() == 64u);
  const auto wrong = run({"compare", "own_softmax", "naive", library("WRONG")});
  BOOST_TEST(wrong.exit == 1);
  BOOST_TEST(contains(wrong.out, "incumbent: wrong result on "), wrong.out);
  const auto useless = run({"compare", "own_softmax", "naive", library("LACKS_ITS_VENDOR"), "--json"});
  BOOST_TEST(useless.exit == 1);
  BOOST_TEST(contains(useless.err, "cannot be used: libvendor.so.9 does not load: install it"), useless.err);
  BOOST_TEST(facts(useless)["side"] == "b");
}

BOOST_AUTO_TEST_CASE(an_unknown_or_absent_contender_is_bad_usage_and_says_what_there_is) {
  const auto unknown = run({"evaluate", "attention_forward", "tiled", "--contender", "eigenn"});
  BOOST_TEST(unknown.exit == 2);
  for (const char* part :
       {"did you mean 'eigen'?", "eigen: a source of the task", "cublas", "cudnn", "flash_attention_3"})
    BOOST_TEST(contains(unknown.err, part), unknown.err);
  const auto elsewhere = run({"evaluate", "softmax", "naive", "--contender", "cudnn"});
  BOOST_TEST(elsewhere.exit == 2);
  BOOST_TEST(
      contains(elsewhere.err,
               "is for the task attention_forward and rmsnorm_backward on cuda, but this is softmax on cpu"),
      elsewhere.err);
  const auto nowhere = run({"evaluate", "softmax", "naive", "--contender", "libnone.so"});
  BOOST_TEST(nowhere.exit == 2);
  BOOST_TEST(contains(nowhere.err, "no such file: "), nowhere.err);
}

BOOST_AUTO_TEST_CASE(a_search_times_each_new_best_beside_a_library) {
  const auto configuration = [&](const std::string& contenders) {
    write_text(
        folder / "search.yaml",
        "name: own\ntask: ./own_softmax\nworkloads: cpu_quick\nseeds: [naive]\ncontenders: " + contenders +
            "\nbudget: {evaluations: 1, wall: 15m}\nevaluation: {screening_samples: 5, max_samples: 8, "
            "max_seconds: 1s}\n");
  };
  configuration("[nosuch]");
  const auto refused = run({"run", "search.yaml"});
  BOOST_TEST(refused.exit == 2);
  BOOST_TEST(contains(refused.err, "search.yaml:5: contenders[0]: unknown contender 'nosuch'. Known:"),
             refused.err);
  configuration("[./libnone.so]");
  BOOST_TEST(run({"run", "search.yaml"}).exit == 2);
  BOOST_TEST(run({"run", "search.yaml", "--check"}).exit == 2);
  configuration("[cudnn]");
  const std::string elsewhere = run({"run", "search.yaml", "--check"}).err;
  const bool said =
      contains(elsewhere, "is not available") || contains(elsewhere, "is for the task attention_forward");
  BOOST_TEST(said, elsewhere);
  configuration("[./" + library("LACKS_ITS_VENDOR") + "]");
  const auto useless = run({"run", "search.yaml", "--check"});
  BOOST_TEST(useless.exit == 0, useless.err);
  BOOST_TEST(contains(useless.err, "search.yaml:5: contenders: the contender "), useless.err);
  BOOST_TEST(contains(useless.err, "cannot be used: libvendor.so.9 does not load: install it"), useless.err);

  library("REFUSES");
  configuration("[" + library("") + ", ./libREFUSES.so]");
  const auto result = run({"run", "search.yaml", "--run-dir", "run", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 0);
  const auto told = facts(run({"status", "run", "--json"}));
  BOOST_TEST(told["best"]["ratios"]["plain"].get<double>() > 0.0);
  BOOST_TEST(!told["best"]["ratios"].contains("REFUSES"));
  BOOST_TEST(contains(result.err, "contender REFUSES: unsupported on R3000_C1500_f32"), result.err);
}

BOOST_AUTO_TEST_SUITE_END()
