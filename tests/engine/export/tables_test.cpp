// SPDX-License-Identifier: Apache-2.0
#include "engine/export/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <tuple>

#include "engine/export/bundle.hpp"
#include "evaluators/system/files.hpp"
#include "support/contains.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

const std::filesystem::path kTasks = std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";

struct Exported : SimulatedRun {
  std::filesystem::path bundle = path() / "bundle";

  // Its README in one line.
  std::string page(IndividualId id) {
    const Runtime runtime = simulated_runtime({});
    const Record of = record();
    const auto report = export_bundle({of, id, bundle, runtime});
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    std::string text = read_file(bundle / "README.md").value();
    std::ranges::replace(text, '\n', ' ');
    return text;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(tables)

BOOST_AUTO_TEST_CASE(a_note_stays_in_its_cell_and_is_nothing_but_text) {
  IndividualRow row;
  row.individual.id = 7;
  row.individual.descent.op = "mutate";
  row.individual.descent.note = "a | b <img src=x> [l](u) `c` \xE2\x80\xAE&";
  const std::string text = lineage_text({row}, "GB/s");
  BOOST_TEST(
      text.find("a \\| b &lt;img src=x&gt; \\[l\\](u) \\`c\\` \\\\u202e&amp; |\n") != std::string::npos,
      text);
}

BOOST_AUTO_TEST_CASE(every_word_of_a_table_is_nothing_but_text) {
  const std::string hostile = "a|b\n<img src=x>\x1b[2J\xff";
  const std::string shown = "a\\|b &lt;img src=x&gt;\\\\x1b\\[2J\\\\xff";
  IndividualRow row;
  row.individual.descent.op = hostile;
  row.stage = hostile;
  const std::string lineage = lineage_text({row}, hostile);
  Evaluation evaluation;
  evaluation.unit = hostile;
  evaluation.workloads.resize(1);
  evaluation.workloads[0].workload = hostile;
  evaluation.workloads[0].ratios[hostile] = 1.0;
  const std::string times = workload_table(evaluation);
  for (const auto& [text, words, lines] : {std::tuple(lineage, 3, 3), {times, 4, 5}}) {
    BOOST_TEST(text.find_first_of("<>\x1b\xff") == std::string::npos, text);
    BOOST_TEST(std::ranges::count(text, '\n') == lines, text);
    int found = 0;
    for (std::size_t at = text.find(shown); at != std::string::npos; at = text.find(shown, at + 1)) ++found;
    BOOST_TEST(found == words, text);
  }
  BOOST_TEST(in_code("a`b\nc\x1b") == "a'b c\\x1b");
}

BOOST_AUTO_TEST_CASE(exactness_is_shown_beside_each_contender) {
  Evaluation evaluation;
  BOOST_TEST(exactness_section(evaluation) == "");
  evaluation.exactness = {{"ordinary", {0.9, 1.25}, 0.9, {{"torch", {1.0, 1.5}}}},
                          {"peaked", {1.8, 3.0}, 1.8}};
  const std::string text = exactness_section(evaluation);
  for (const char* line : {"| error / permitted | rms | max | torch rms | torch max | rms / torch |",
                           "| ordinary | 0.9 | 1.25 | 1 | 1.5 | 0.9 |", "| peaked | 1.8 | 3 | - | - | - |"})
    BOOST_TEST(text.find(line) != std::string::npos, text);
  BOOST_TEST(text.find("at most 1.8 times (on peaked inputs) the sum of what every kernel may have") !=
                 std::string::npos,
             text);
}

BOOST_AUTO_TEST_CASE(lines_that_no_check_ran_are_named) {
  Evaluation evaluation;
  evaluation.coverage.emplace();
  evaluation.coverage->blocks = evaluation.coverage->ran = 9;
  BOOST_TEST(exactness_section(evaluation) == "");
  evaluation.coverage->not_run = {{"D=64", "variant.cpp", 4, 6, 2}, {"", "a<b>.hpp", 7, 7, 1}};
  const std::string text = exactness_section(evaluation);
  for (const char* line : {"\n- line 4 to 6, specialisation D=64: never ran under a check\n",
                           "\n- line 7 of a&lt;b&gt;.hpp: never ran under a check\n"})
    BOOST_TEST(text.find(line) != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(contenders_are_mentioned_only_where_some_were_timed) {
  std::vector<BundledKernel> kernels(1);
  kernels[0].evaluation.workloads.resize(1);
  const char* const words = "Contenders were timed interleaved with the kernel.";
  BOOST_TEST(table_page("a", "b", kernels, nullptr).find(words) == std::string::npos);
  kernels[0].evaluation.workloads[0].ratios["torch"] = 1.0;
  BOOST_TEST(table_page("a", "b", kernels, nullptr).find(words) != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_bundle_of_an_installed_seed_without_tunables_says_so, Exported) {
  search({"seeds=[" + (kTasks / "softmax/seeds/naive.cpp").string() + "]", "budget.evaluations=1"});
  const std::string text = page(1);
  for (const char* words :
       {"without tunables, identity `", ", the hand-written seed `naive.cpp`, as given: ",
        "For f32; built in: the shapes that the task and the kernel's manifest (`requires`, "
        "`constraints`) accept, with at most 536870911 elements in a tensor",
        "each begins at a multiple of 64 bytes", "no output shares memory with another tensor"})
    BOOST_TEST(contains(text, words), text);
  BOOST_TEST(!contains(text, " in the record ("), text);
}

BOOST_FIXTURE_TEST_CASE(a_bundle_says_what_identity_its_file_has_by_its_defaults, Exported) {
  search({"budget.evaluations=20"});
  BOOST_TEST(contains(page(1), ", the seed `plain.cpp`, as given: "));
  IndividualRow tuned;
  record().each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.op == "tune" && row.state == IndividualState::measured) tuned = row;
  });
  BOOST_REQUIRE(tuned.individual.id != 0);
  const std::string text = page(tuned.individual.id);
  BOOST_TEST(contains(text, ".cpp`, values by tune: "), text);
  const Variant file = load_variant(bundle / "kernel.cpp", load_task(kTasks / "softmax"));
  BOOST_TEST((file.configuration == tuned.individual.configuration));
  BOOST_TEST(file.id != tuned.individual.variant_id);
  BOOST_TEST(contains(text, fmt::format("identity `{}` in the record (`kernel.cpp`, with these values as its "
                                        "defaults, is `{}`)",
                                        tuned.individual.variant_id.substr(0, 12), file.id.substr(0, 12))),
             text);
}

BOOST_AUTO_TEST_CASE(the_gain_of_a_step_allows_for_a_device_that_became_slower) {
  IndividualRow first, second;
  first.individual.measured = second.individual.measured = true;
  first.individual.fitness = 100.0;
  second.individual.fitness = 88.0;
  second.pace = 0.8;
  const std::string text = lineage_text({first, second}, "GB/s");
  BOOST_TEST(text.find("| +10.0 %, one measurement |") != std::string::npos, text);
  BOOST_TEST(text.find("device's speed changed") != std::string::npos, text);
  second.individual.measured = true;
  second.by_duel = 104.0;  // the duel's result counts instead
  const std::string settled = lineage_text({first, second}, "GB/s");
  BOOST_TEST(settled.find("| 104.00 | +4.0 % |") != std::string::npos, settled);
  BOOST_TEST(settled.find("device's speed changed") == std::string::npos, settled);
}

BOOST_AUTO_TEST_SUITE_END()
