// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 240 s, evaluators/devices/opencl, evaluators/languages/opencl_c, engine/export
// Evaluations and a search on the opencl target, as a user starts them. Skipped where OpenCL has no device.
#include <boost/test/unit_test.hpp>

#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/places.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

boost::test_tools::assertion_result opencl_is_here(boost::unit_test::test_unit_id) {
  const auto listed = run_command({CULTIVAR_BIN_DIR "/cultivar-opencl", "list"});
  boost::test_tools::assertion_result here(listed.exit == 0 &&
                                           listed.out.find("\"name\"") != std::string::npos);
  if (!here) here.message() << "OpenCL has no device here: " << listed.err;
  return here;
}

CommandResult run(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), CULTIVAR_BIN_DIR "/cultivar");
  return run_command(words, {.folder = folder.path(), .deadline_s = 400.0});
}

const std::string kernels = CULTIVAR_SOURCE_DIR "/tests/kernels/opencl/";

}  // namespace

BOOST_AUTO_TEST_SUITE(opencl_search, *boost::unit_test::precondition(opencl_is_here))

BOOST_AUTO_TEST_CASE(kernels_that_misbehave_are_refused_with_words) {
  const TemporaryFolder folder;
  const auto result =
      run(folder, {"evaluate", "softmax", kernels + "hostile/writes_behind.cl", kernels + "hostile/races.cl",
                   kernels + "hostile/runs_forever.cl", "--target", "opencl", "--json"});
  BOOST_TEST(result.exit == 1, result.err);
  const auto all = nlohmann::json::parse(result.out);
  BOOST_REQUIRE(all.size() == 3u);
  for (const auto& one : all) BOOST_TEST(one["verdict"] == "rejected", one.dump());
  BOOST_TEST(contains(all[0]["reason"].get<std::string>() + all[0]["diagnostics"].get<std::string>(), "'y'"),
             all[0].dump());
  BOOST_TEST(
      contains(all[2]["reason"].get<std::string>() + all[2]["diagnostics"].get<std::string>(), "deadline"),
      all[2].dump());
}

BOOST_AUTO_TEST_CASE(a_search_promotes_what_is_faster_and_is_replayed) {
  const TemporaryFolder folder;
  const auto result =
      run(folder, {"run", CULTIVAR_SOURCE_DIR "/configs/opencl_quick.yaml", "--set", "budget.evaluations=6",
                   "--set", "budget.wall=4m", "--run-dir", (folder / "run").string()});
  BOOST_TEST(result.exit == 0, result.err << result.out);
  const auto record = Record::open(folder / "run");
  BOOST_REQUIRE_MESSAGE(record, (record ? "" : record.error().message));
  BOOST_TEST(record->facts().target == "opencl");
  int measured = 0;
  record->each_individual([&](const IndividualRow& row) { measured += row.individual.fitness > 0.0; });
  BOOST_TEST(measured >= 3);
  const auto again = run(folder, {"replay", (folder / "run").string()});
  BOOST_TEST(again.exit == 0, again.err << again.out);

  // The search has exported its best, which is right here, and which Cultivar times as a contender.
  const std::string best = (folder / "run/best").string();
  const auto verified = run_command({"sh", "-c",
                                     "cmake -S " + best + " -B " + best + "/build && cmake --build " + best +
                                         "/build && " + best + "/build/verify --quick"},
                                    {.folder = folder.path(), .deadline_s = 400.0});
  BOOST_TEST(verified.exit == 0, verified.err << verified.out);
  const auto facts = nlohmann::json::parse(read_text(folder / "run/best/bundle.json"));
  const std::string library =
      best + "/build/libopencl_quick_" + facts["id"].get<std::string>().substr(0, 8) + ".so";
  const auto beside = run(folder, {"evaluate", "matmul", "opencl_naive", "--target", "opencl", "--workloads",
                                   "cpu_quick", "--contender", library, "--json"});
  BOOST_TEST(beside.exit == 0, beside.err << beside.out);
  BOOST_TEST(contains(beside.out, "\"opencl_quick_"), beside.out);
}

BOOST_AUTO_TEST_SUITE_END()
