// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 40 s, engine/suite
// `cultivar suite`: a task that fails ends neither the suite nor its table, and the same command continues.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(suite_command)

BOOST_AUTO_TEST_CASE(the_installed_suite_is_valid_and_a_misspelled_task_is_named) {
  TemporaryFolder folder;
  const auto valid = cultivar_in(folder.path(), {"suite", "cpu_suite", "--check", "--json"});
  BOOST_TEST_REQUIRE(valid.exit == 0, valid.err);
  BOOST_TEST(facts(valid)["tasks"].size() == 19U);
  const auto one = cultivar_in(folder.path(), {"suite", "cpu_suite", "--check", "--only", "gelu"});
  BOOST_TEST(contains(one.out, "The suite is valid: 1 of 19 tasks, 30 s of search."), one.out);
  const auto unknown = cultivar_in(folder.path(), {"suite", "cpu_suite", "--only", "sofmax", "--check"});
  BOOST_TEST(unknown.exit == 2);
  BOOST_TEST(contains(unknown.err, "the suite has no such task (did you mean 'softmax'?"), unknown.err);
  BOOST_TEST(!fs::exists(folder / "runs"));
}

BOOST_AUTO_TEST_CASE(a_contender_that_does_not_fit_is_named_with_its_line_in_the_suite) {
  TemporaryFolder folder;
  write_own_task(folder.path(), "{evaluations: 2}");
  const auto check = [&](const std::string& common, const std::string& own) {
    write_text(folder / "one.yaml",
               "name: one\n"
               "common:\n"
               "  workloads: small\n"
               "  budget: {evaluations: 2, wall: 15m}\n" +
                   common +
                   "tasks:\n"
                   "  - {name: first, task: ./rms_norm}\n"
                   "  - name: d64\n"
                   "    task: ./rms_norm\n" +
                   own);
    return cultivar_in(folder.path(), {"suite", "one.yaml", "--only", "d64", "--check"});
  };
  const auto in_task = check("", "    contenders:\n      - rms_norm/seeds/plain.cpp\n      - cudnn\n");
  BOOST_TEST(in_task.exit == 2);
  BOOST_TEST(contains(in_task.err, "one.yaml:11: tasks[1].contenders: "), in_task.err);
  const auto in_common = check("  contenders: [cudnn]\n", "");
  BOOST_TEST(contains(in_common.err, "one.yaml:5: common.contenders: "), in_common.err);
}

BOOST_AUTO_TEST_CASE(a_machine_without_the_device_is_said_once_and_ends_the_suite) {
  TemporaryFolder folder;
  write_text(folder / "gpu.yaml",
             "name: gpu\n"
             "common: {target: cuda, workloads: quick, budget: {evaluations: 1, wall: 15m}}\n"
             "tasks: [{task: softmax}, {task: gelu}, {task: transpose}]\n");
  const auto result = run_command(
      cultivar_command({"suite", "gpu.yaml"}),
      {.folder = folder.path(), .environment = {{"CUDA_VISIBLE_DEVICES", ""}}, .deadline_s = 120.0});
  BOOST_TEST(result.exit == 3, result.err);
  BOOST_TEST(contains(result.err, "1 of 3, softmax: "), result.err);
  BOOST_TEST(!contains(result.err, "2 of 3"), result.err);
  BOOST_TEST(!contains(result.err + result.out, "gelu"), result.err);
}

BOOST_AUTO_TEST_CASE(a_task_that_fails_is_said_in_the_table_and_the_next_one_is_searched) {
  TemporaryFolder folder;
  write_own_task(folder.path(), "{evaluations: 2}");
  fs::copy(folder / "rms_norm", folder / "broken", fs::copy_options::recursive);
  write_text(folder / "broken/reference.cpp", "no C++ at all\n");
  write_text(folder / "both.yaml",
             "name: both\n"
             "common: {workloads: small, budget: {evaluations: 2, wall: 15m}}\n"
             "tasks:\n"
             "  - {task: ./broken}\n"
             "  - {name: good, task: ./rms_norm}\n");
  const auto result = cultivar_in(folder.path(), {"suite", "both.yaml", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 1);
  const auto tasks = facts(result)["tasks"];
  BOOST_TEST_REQUIRE(tasks.size() == 2U);
  BOOST_TEST(tasks[0]["best"].is_null());
  BOOST_TEST(!tasks[0]["trouble"].get<std::string>().empty());
  BOOST_TEST(tasks[1]["trouble"] == "");
  BOOST_TEST_REQUIRE(tasks[1]["best"].is_object());
  BOOST_TEST(tasks[1]["best"]["hand_written"] == true);
  BOOST_TEST(fs::exists(folder / "runs/both/good/best/bundle.json"));
  BOOST_TEST(contains(read_text(folder / "runs/both/table.md"), "- broken: "));

  const auto again = cultivar_in(folder.path(), {"suite", "both.yaml", "--only", "good", "--json"});
  BOOST_TEST(again.exit == 1);  // the other one's trouble is kept
  BOOST_TEST(contains(again.err, "1 of 1, good: finished before"), again.err);
  BOOST_TEST(facts(again)["tasks"][0]["trouble"] == tasks[0]["trouble"]);
  const auto table = cultivar_in(folder.path(), {"suite", "both.yaml", "--table"});
  BOOST_TEST(contains(table.out, "show runs/both/good best"), table.out);  // of the task that has one
  BOOST_TEST(contains(table.out, "best (confirmed)"), table.out);
  const auto shown = cultivar_in(folder.path(), {"runs", "runs"});
  BOOST_TEST(contains(shown.out, "best (during the search)"), shown.out);
  const auto listed = facts(cultivar_in(folder.path(), {"runs", "runs", "--json"}));
  BOOST_TEST_REQUIRE(listed.size() == 1U);  // `broken` did not begin
  BOOST_TEST(listed[0]["folder"] == (folder / "runs/both/good").string());
}

BOOST_AUTO_TEST_SUITE_END()
