// SPDX-License-Identifier: Apache-2.0
// runs alone
// `cultivar new`: the folder of a new task runs at once, and a new seed has the right parameters.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

struct Folder {
  TemporaryFolder folder;
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
  // The last stage that a seed reached: "passed" or the reason.
  std::string judged(const std::string& task, const std::string& seed, const std::string& stage,
                     const std::string& target = "cpu") {
    const auto result = run({"evaluate", task, seed, "--target", target, "--workloads",
                             target == "cpu" ? "cpu_quick" : "gpu", "--stop-after", stage, "--json"});
    BOOST_TEST_INFO(result.err);
    BOOST_TEST_REQUIRE((result.exit == 0 || result.exit == 1));
    const auto evaluation = facts(result).at(0);
    return evaluation["verdict"] == "rejected" ? evaluation["reason"].get<std::string>() : "passed";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(new_command, Folder)

BOOST_AUTO_TEST_CASE(a_new_task_explains_itself_and_its_seeds_pass_all_checks) {
  const auto made =
      run({"new", "task", "my_norm", "--summary", "y = x / rms(x)", "--rows", "tokens", "--columns", "hidden",
           "--input", "a", "--output", "b", "--dtypes", "bf16,f32", "--json"});
  BOOST_TEST_REQUIRE(made.exit == 0, made.err);
  BOOST_TEST(facts(made)["files"].size() == 10U);
  const auto described = run({"tasks", "my_norm", "--json"});
  BOOST_TEST_REQUIRE(described.exit == 0, described.err);
  BOOST_TEST(facts(described)["summary"] == "y = x / rms(x)");
  BOOST_TEST(facts(described)["dimensions"][1]["name"] == "hidden");
  BOOST_TEST(facts(described)["seeds"].size() == 6U);
  BOOST_TEST(judged("my_norm", "my_norm/seeds/naive.cpp", "edge") == "passed");
  BOOST_TEST(judged("my_norm", "my_norm/seeds/lanes.cpp", "edge") == "passed");
  const auto again = run({"new", "task", "my_norm"});
  BOOST_TEST(again.exit == 2);
  BOOST_TEST(contains(again.err, "my_norm exists"), again.err);
}

BOOST_AUTO_TEST_CASE(the_name_of_a_task_that_came_with_cultivar_is_refused) {
  const auto made = run({"new", "task", "softmax", "--folder", "mine"});
  BOOST_TEST(made.exit == 2);
  BOOST_TEST(contains(made.err, "'softmax' is taken by a task that came with Cultivar"), made.err);
  BOOST_TEST(!fs::exists(folder / "mine"));
}

BOOST_AUTO_TEST_CASE(a_folder_with_the_name_of_an_installed_task_is_meant_by_its_path) {
  const auto made = run({"new", "task", "my_norm", "--folder", "softmax", "--summary", "y = x / rms(x)"});
  BOOST_TEST_REQUIRE(made.exit == 0, made.err);
  BOOST_TEST(contains(made.out, "evaluate ./softmax ./softmax/seeds/naive.cpp"), made.out);
  BOOST_TEST(facts(run({"tasks", "./softmax", "--json"}))["summary"] == "y = x / rms(x)");
  BOOST_TEST(facts(run({"tasks", "softmax", "--json"}))["summary"] != "y = x / rms(x)");
}

BOOST_AUTO_TEST_CASE(names_that_cannot_be_are_refused_with_the_remedy) {
  BOOST_TEST(contains(run({"new", "task", "9lives"}).err, "'9lives' is not a name"));
  BOOST_TEST(
      contains(run({"new", "task", "mine", "--input", "eps"}).err, "used by the new folder's own files"));
  BOOST_TEST(contains(run({"new", "task", "mine", "--input", "y"}).err, "'y' is given twice"));
  BOOST_TEST(contains(run({"new", "task", "mine", "--dtypes", "bf16"}).err, "must include f32"));
  BOOST_TEST(contains(run({"new", "task", "mine", "--dtypes", "fp16"}).err, "unknown dtype 'fp16'"));
  const std::string endless(300, 'a');
  BOOST_TEST(contains(run({"new", "task", endless}).err, "has 300 letters (use at most 64)"));
  BOOST_TEST(contains(run({"new", "task", "mine", "--folder", endless}).err,
                      "File name too long (name another place with --folder)"));
  BOOST_TEST(contains(run({"new", "seed", "softmax", "--out", endless}).err,
                      "File name too long (name another place with --out)"));
  BOOST_TEST(contains(run({"new", "task", "headers"}).err, "seeds include (choose another name)"));
  BOOST_TEST(contains(run({"new", "task", "mine", "--folder", "./headers/"}).err,
                      "seeds include (choose another --folder)"));
  BOOST_TEST(!fs::exists(folder / "headers"));
  BOOST_TEST(contains(run({"new", "kernel"}).err, "'kernel' cannot be made"));
  BOOST_TEST(!fs::exists(folder / "mine"));
}

BOOST_AUTO_TEST_CASE(a_new_seed_compiles_and_is_told_that_it_writes_nothing) {
  for (const char* task : {"cross_entropy", "attention_forward"}) {
    const std::string file = std::string(task) + ".cpp";
    const auto made = run({"new", "seed", task, "--name", "mine", "--out", file, "--json"});
    BOOST_TEST_REQUIRE(made.exit == 0, made.err);
    BOOST_TEST(facts(made)["target"] == "cpu");
    BOOST_TEST(contains(judged(task, file, "smoke"), "output elements not written"));
  }
  const auto triton = run({"new", "seed", "softmax", "--language", "triton", "--out", "mine.py", "--json"});
  BOOST_TEST_REQUIRE(triton.exit == 0, triton.err);
  BOOST_TEST(facts(triton)["target"] == "cuda");
  const auto lint = run({"evaluate", "softmax", "mine.py", "--target", "cuda", "--stop-after", "lint"});
  BOOST_TEST(lint.exit == 0, lint.err << lint.out);
  BOOST_TEST(contains(run({"new", "seed", "softmax", "--language", "tritn"}).err, "did you mean 'triton'"));
  BOOST_TEST(contains(run({"new", "seed", "softmax", "--language", "triton", "--target", "cpu"}).err,
                      "Triton is not compiled for target cpu"));
  const auto wrong = run({"new", "seed", "softmax", "--target", "cdua"});
  BOOST_TEST(contains(wrong.err, "there is no target 'cdua' (did you mean 'cuda'?"), wrong.err);
}

BOOST_AUTO_TEST_CASE(a_new_seed_is_written_where_it_is_the_users) {
  const auto of_cultivars = run({"new", "seed", "softmax", "--name", "mine"});
  BOOST_TEST_REQUIRE(of_cultivars.exit == 0, of_cultivars.err);
  BOOST_TEST(fs::exists(folder / "mine.cpp"));
  BOOST_TEST(!fs::exists(fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/softmax/seeds/mine.cpp"));
  BOOST_TEST(contains(of_cultivars.out, "evaluate softmax mine.cpp"), of_cultivars.out);
  BOOST_TEST(contains(of_cultivars.out, "--set 'seeds=[" + (folder / "mine.cpp").string() + "]'"),
             of_cultivars.out);
  write_own_task(folder.path(), "{evaluations: 1}");
  const auto of_the_users = run({"new", "seed", "rms_norm", "--name", "mine"});
  BOOST_TEST_REQUIRE(of_the_users.exit == 0, of_the_users.err);
  BOOST_TEST(fs::exists(folder / "rms_norm/seeds/mine.cpp"));
  BOOST_TEST(!contains(of_the_users.out, "--set"), of_the_users.out);
  // Seeds of one name: that of the target is meant, and none where there are two.
  BOOST_TEST_REQUIRE(run({"new", "seed", "rms_norm", "--name", "mine", "--target", "cuda"}).exit == 0);
  const auto lint = [&](const std::string& target) {
    return run(
        {"evaluate", "rms_norm", "mine", "--target", target, "--workloads", "small", "--stop-after", "lint"});
  };
  BOOST_TEST(lint("cpu").exit == 0);
  BOOST_TEST_REQUIRE(run({"new", "seed", "rms_norm", "--name", "mine", "--language", "triton"}).exit == 0);
  const auto twins = lint("cuda");
  BOOST_TEST(twins.exit == 2);
  BOOST_TEST(contains(twins.err, "several files are called 'mine': give the path of one ("), twins.err);
  BOOST_TEST(contains(twins.err, "rms_norm/seeds/mine.cu, "), twins.err);
  const auto nowhere = run({"new", "seed", "softmax", "--out", "mine.cpp/seed.cpp"});
  BOOST_TEST(nowhere.exit == 2);
  BOOST_TEST(contains(nowhere.err, "mine.cpp: Not a directory (name another place with --out)"), nowhere.err);
}

BOOST_AUTO_TEST_SUITE_END()
