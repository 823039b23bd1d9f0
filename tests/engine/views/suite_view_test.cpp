// SPDX-License-Identifier: Apache-2.0
// A suite's table from the records of its runs.
#include "engine/views/suite_view.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "engine/store/record.hpp"
#include "evaluators/system/files.hpp"
#include "support/command.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

BOOST_AUTO_TEST_SUITE(suite_view)

BOOST_AUTO_TEST_CASE(a_row_has_the_times_of_the_best_kernel_and_of_the_fastest_contenders) {
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 120;
  write_synthetic_run(folder / "softmax", run);
  const json row = suite_row_view(folder / "softmax");
  BOOST_TEST(row["state"] == "finished");
  BOOST_TEST(row["trouble"] == "");
  BOOST_TEST(row["confirmed"] == true);
  const auto record = Record::open(folder / "softmax");
  BOOST_REQUIRE(record);
  const auto confirmed = record->confirmation(record->best().value());
  BOOST_REQUIRE(confirmed);
  double before = 0.0, after = 0.0;
  for (const WorkloadResult& w : confirmed->workloads) {
    after += w.median_us;
    before += w.median_us * std::min(w.ratios.at("cudnn"), w.ratios.at("flash_attention_3"));
  }
  BOOST_TEST(row["before_us"].get<double>() == before, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(row["after_us"].get<double>() == after, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(row["before"] == "contenders");
  BOOST_TEST(row["error"].get<double>() == 1.02, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(row["error_beside"].get<double>() == 1.02 / 1.05, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(what_has_not_begun_or_cannot_be_read_is_a_row_too) {
  TemporaryFolder folder;
  BOOST_TEST(suite_row_view(folder / "absent")["state"] == "not begun");
  std::filesystem::create_directories(folder / "damaged");
  BOOST_REQUIRE(write_atomically(folder / "damaged" / "run.db", "this is no database"));
  const json row = suite_row_view(folder / "damaged");
  BOOST_TEST(!row["trouble"].get<std::string>().empty());
  BOOST_TEST(row["before_us"].is_null());
}

BOOST_AUTO_TEST_CASE(a_table_that_somebody_changed_names_no_folder_elsewhere) {
  TemporaryFolder folder;
  const auto tasks = [&](const std::string& table) {
    BOOST_REQUIRE(write_atomically(folder / kSuiteTable, table));
    return tasks_of_suite(folder.path());
  };
  BOOST_TEST(!is_suite(folder.path()));
  BOOST_TEST(tasks(R"({"tasks": [{"name": "b"}, {"name": "../a"}, {"name": ".."}, {"name": ""}, {"name": 7},
                                 {"name": "/etc"}, 3, {"name": "a"}]})") ==
             (std::vector<std::string>{"b", "a"}));
  BOOST_TEST(is_suite(folder.path()));
  for (const char* table : {"", "[]", "{", "{\"tasks\": 3}", "{\"tasks\": null}"})
    BOOST_TEST(tasks(table).empty(), table);
}

BOOST_AUTO_TEST_SUITE_END()
