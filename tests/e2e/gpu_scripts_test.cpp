// SPDX-License-Identifier: Apache-2.0
// The scripts that take programs to a machine with a GPU and run them there: what they reject, and what they
// leave unchanged. A script with that name stands in for the GPU tool.
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/places.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

void write(const fs::path& file, const std::string& text, bool program = false) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
  if (program) fs::permissions(file, fs::perms::owner_all);
}

struct Scripts {
  TemporaryFolder folder;
  const fs::path build = folder / "build";

  CommandResult script(const std::string& name, std::vector<std::string> arguments) {
    std::vector<std::string> command = {"sh", (source_folder() / "tests/gpu" / name).string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    fs::create_directories(folder / "tmp");
    write(folder / "path/nvidia-smi", "#!/bin/sh\necho card\n", true);
    CommandOptions options{.folder = folder.path()};
    options.environment = {{"PATH", (folder / "path").string() + ":/usr/bin:/bin"},
                           {"TMPDIR", (folder / "tmp").string()},
                           {"CULTIVAR_BUILD", build.string()},
                           {"PYTHON", (folder / "path/python-with-torch").string()}};
    return run_command(command, options);
  }
  CommandResult steps(std::vector<std::string> names) {
    names.insert(names.begin(), (folder / "out").string());
    fs::create_directories(build / "bin");
    return script("run.sh", names);
  }
  // A tests-gpu that has the suite cuda_session, and says this when it runs it.
  void suite_says(const std::string& words, int code) {
    write(build / "bin/tests-gpu",
          "#!/bin/sh\n[ \"$1\" != --list_content ] || { echo cuda_session*; exit 0; }\necho '" + words +
              "'\nexit " + std::to_string(code) + "\n",
          true);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(gpu_scripts, Scripts)

BOOST_AUTO_TEST_CASE(a_bundle_never_replaces_a_folder_that_is_no_bundle) {
  write(folder / "mine/thesis.txt", "years");
  for (const char* program :
       {"cultivar", "cultivar-worker-cuda", "cultivar-worker-cpu", "cultivar-cell", "cultivar-nvrtc",
        "bench-gpu-judgements", "bench-gpu-gate", "bench-honest-under-load", "tests-gpu"}) {
    const auto lacking = script("bundle.sh", {build.string(), (folder / "mine").string()});
    BOOST_TEST(lacking.exit == 1);
    BOOST_TEST(contains(lacking.err, std::string("has no bin/") + program), lacking.err);
    BOOST_TEST(contains(lacking.err, "cmake --build"), lacking.err);
    fs::create_directories(build / "bin");
    fs::copy_file("/bin/true", build / "bin" / program);
  }
  const auto refused = script("bundle.sh", {build.string(), (folder / "mine").string()});
  BOOST_TEST(refused.exit == 2);
  BOOST_TEST(contains(refused.err, "is not an earlier bundle"), refused.err);
  BOOST_TEST(fs::exists(folder / "mine/thesis.txt"));

  fs::create_directories(folder / "empty");
  for (int again = 0; again < 2; ++again) {  // an empty folder, then the bundle in it
    const auto made = script("bundle.sh", {build.string(), (folder / "empty").string()});
    BOOST_TEST(made.exit == 0, made.err);
    BOOST_TEST(fs::exists(folder / "empty/run.sh"));
    BOOST_TEST(!fs::exists(folder / "empty/stale"));
    write(folder / "empty/stale", "of the first");
  }
}

BOOST_AUTO_TEST_CASE(a_bundle_needs_both_arguments) {
  for (const std::vector<std::string>& few : {std::vector<std::string>{}, {"build"}, {"build", ""}}) {
    const auto result = script("bundle.sh", few);
    BOOST_TEST(result.exit == 2);
    BOOST_TEST(contains(result.err, "usage: bundle.sh BUILD_DIR OUT_DIR"), result.err);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_step_is_noticed_before_anything_runs) {
  suite_says("ran", 0);
  const auto result = steps({"session", "sesion"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "unknown step sesion"), result.err);
  for (const char* name : {"profile", "gate_trials", "every_shape", "judgements_alone"})
    BOOST_TEST(contains(result.err, name), result.err);
  BOOST_TEST(!fs::exists(folder / "out"));
  BOOST_TEST(fs::is_empty(folder / "tmp"));
}

BOOST_AUTO_TEST_CASE(a_step_that_could_not_run_has_failed) {
  const auto absent = steps({"session"});
  BOOST_TEST(absent.exit == 1);
  BOOST_TEST(contains(absent.out, "bin/tests-gpu"), absent.out);
  suite_says("ran", 0);
  BOOST_TEST(steps({"session"}).exit == 0);
  const auto lacking = steps({"session", "sanitizer"});
  BOOST_TEST(lacking.exit == 1);
  BOOST_TEST(contains(lacking.out, "this build has no suite cuda_sanitizer"), lacking.out);
  suite_says("Test suite \"cuda_session\" is skipped because precondition failed: no driver", 0);
  const auto skipped = steps({"session"});
  BOOST_TEST(skipped.exit == 1);
  BOOST_TEST(contains(skipped.out, "skipped: no driver"), skipped.out);
  BOOST_TEST(fs::is_empty(folder / "tmp"));
}

BOOST_AUTO_TEST_CASE(the_exports_test_runs_in_the_python_that_is_named_and_says_why_it_does_not) {
  // A program `cultivar export RUN --out DIR` whose bundle needs no build.
  write(build / "bin/cultivar",
        "#!/bin/sh\nmkdir -p \"$4/pytorch\" \"$4/build\" && cp /bin/true \"$4/build/verify\"\n"
        "touch \"$4/pytorch/test_it.py\" \"$4/pytorch/it.py\"\n",
        true);
  const auto python = [&](const std::string& words, int code) {
    write(folder / "path/python-with-torch",
          "#!/bin/sh\necho \"$*\" | sed 's|.*/||'\necho '" + words + "'\nexit " + std::to_string(code) + "\n",
          true);
    return steps({"pytorch"});
  };
  const auto passed = python("passed: 7 checks", 0);
  BOOST_TEST(passed.exit == 0);
  BOOST_TEST(contains(passed.out, "passed: 7 checks"), passed.out);
  BOOST_TEST(contains(read_text(folder / "out/logs.txt"), "test_it.py\npassed"));  // that file and no other
  const auto failed = python("FAILED: 2 of 7 checks", 1);
  BOOST_TEST(failed.exit == 1);
  BOOST_TEST(contains(failed.out, "FAILED: 2 of 7 checks"), failed.out);
  const auto skipped = python("skipped: python-with-torch has no PyTorch", 77);
  BOOST_TEST(skipped.exit == 1);  // it was asked for by name
  BOOST_TEST(contains(skipped.out, "skipped: python-with-torch has no PyTorch"), skipped.out);
}

BOOST_AUTO_TEST_CASE(the_row_of_a_step_that_failed_says_why_and_not_how_busy_the_card_was) {
  suite_says("it went wrong", 5);
  const auto result = steps({"session"});
  BOOST_TEST(result.exit == 1);
  const std::string table = result.out.substr(result.out.find("--- step,"));
  BOOST_TEST(contains(table, "it went wrong"), result.out);
  BOOST_TEST(!contains(table, "card:"), result.out);
}

BOOST_AUTO_TEST_CASE(evaluations_on_all_pairs_of_cores_are_added_and_one_refusal_fails) {
  write(folder / "path/nproc", "#!/bin/sh\necho 5\n", true);
  write(folder / "path/taskset", "#!/bin/sh\nshift 2\nexec \"$@\"\n", true);
  const fs::path program = build / "bin/bench-honest-under-load";
  const auto of = [&](const std::string& refused) {
    write(program, "#!/bin/sh\necho \"$1 evaluations beside $2 spinning threads: " + refused + " refused\"\n",
          true);
    return script("honest_under_load.sh", {program.string(), "30"});
  };
  const auto all = of("0");
  BOOST_TEST(all.exit == 0, all.err);
  BOOST_TEST(contains(all.out, "load: 60 evaluations on 2 pairs of cores, 0 refused"), all.out);
  const auto some = of("10");
  BOOST_TEST(some.exit == 1, some.err);
  BOOST_TEST(contains(some.out, "60 evaluations on 2 pairs of cores, 20 refused"), some.out);
  write(program, "#!/bin/sh\nexit 2\n", true);  // a program that ends without a result
  BOOST_TEST(script("honest_under_load.sh", {program.string(), "30"}).exit == 1);
}

BOOST_AUTO_TEST_SUITE_END()
