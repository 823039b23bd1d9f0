// SPDX-License-Identifier: Apache-2.0
// Pieces of a question about a search, from a record in memory.
#include "operators/prompts/prompt_writer.hpp"

#include <boost/test/unit_test.hpp>

#include "operators/prompts/idea_pieces.hpp"
#include "support/contains.hpp"
#include "support/record_view.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

Evaluation measured(double fitness) {
  Evaluation e;
  e.verdict = Evaluation::Verdict::measured;
  e.stage = Stage::measure;
  e.fitness = fitness;
  return e;
}

struct Told {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  Facts facts{{"num_cores", 4.0}};
  MemoryChronicle record_view{task};
  PromptKit kit;

  std::string slot(const std::string& name, IndividualId subject) const {
    const PromptContext context{.task = task,
                                .workloads = workloads,
                                .facts = facts,
                                .archive = record_view.archive,
                                .record_view = record_view,
                                .device = "a processor"};
    PromptWriter writer(context, kit, subject, [](const std::string& op) { return op == "tune"; });
    writer.add_trajectory();
    writer.add_lineage();
    add_tried_values(writer);
    std::string text;
    for (const Piece& piece : writer.pieces())
      if (piece.slot == name) text += piece.text;
    return text;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(prompt_writer, Told)

BOOST_AUTO_TEST_CASE(a_trajectory_has_the_best_in_order_and_the_newest_sources_without_tunings) {
  const IndividualId seed = record_view.add("one", "seed", {}, measured(10.0), "naive.cpp");
  const IndividualId tuned = record_view.add("one", "tune", {seed}, measured(12.0), "A=2");
  const IndividualId better = record_view.add("two", "mutate", {tuned}, measured(20.0), "wider vectors");
  record_view.add("three", "mutate", {better}, rejection(Stage::compile, "error C1", ""), "a fused pass");
  record_view.promotions = {seed, tuned, better};
  const std::string told = slot("trajectory", better);
  const std::size_t newest = told.find("The newest sources");
  BOOST_REQUIRE(newest != std::string::npos);
  BOOST_TEST(told.find("#2 tune of #1: A=2 -> 12; over #1: +20.0 % by one measurement of each") < newest,
             told);
  BOOST_TEST(told.find("#3 mutate of #2: wider vectors -> 20") < newest, told);
  BOOST_TEST(
      contains(told.substr(newest), "#4 mutate of #3: a fused pass -> rejected at compile: error C1\n- #3"),
      told);
  BOOST_TEST(!contains(told.substr(newest), "#2 tune"), told);
  BOOST_TEST(contains(told.substr(newest), "#1 seed: naive.cpp"), told);
}

BOOST_AUTO_TEST_CASE(siblings_are_told_without_tunings) {
  const IndividualId seed = record_view.add("one", "seed", {}, measured(10.0), "naive.cpp");
  record_view.add("one", "tune", {seed}, measured(12.0), "A=2");
  record_view.add("two", "submit", {seed}, measured(13.0), "by hand");
  BOOST_TEST(contains(slot("lineage", seed), "Derived from it before:\n- #3 submit of #1: by hand"));
  BOOST_TEST(!contains(slot("lineage", seed), "#2"));
}

BOOST_AUTO_TEST_CASE(a_kernel_comes_with_what_other_values_of_its_tunables_gave) {
  const auto with = [&](const std::string& source, double fitness, std::int64_t threads,
                        const std::string& keep) {
    return record_view.add(source, "tune", {}, measured(fitness), "", {{"THREADS", threads}, {"KEEP", keep}});
  };
  const IndividualId subject = with("one", 10.0, 256, "yes");
  BOOST_TEST(!contains(slot("parent", subject), "Other values"));
  with("one", 6.0, 512, "no");
  with("one", 9.0, 512, "yes");
  with("one", 8.0, 256, "no");
  with("another", 5.0, 128, "yes");
  record_view.add("one", "tune", {}, rejection(Stage::compile, "error C1", ""), "",
                  {{"THREADS", std::int64_t{1024}}, {"KEEP", "yes"}});
  const std::string told = slot("parent", subject);
  BOOST_TEST(contains(told, "the speed that they gave beside it (by one measurement of each: noise up to"),
             told);
  BOOST_TEST(
      contains(told, ":\n- KEEP=no: -20.0 %\n- THREADS=512: -10.0 %\n- KEEP=no THREADS=512: -40.0 %\n"),
      told);
  BOOST_TEST(!contains(told, "128"), told);
  BOOST_TEST(!contains(told, "1024"), told);
  for (int threads = 1; threads < 14; ++threads) with("one", 7.0, threads, "yes");
  BOOST_TEST(contains(slot("parent", subject), "\n- 6 more\n"), slot("parent", subject));
}

BOOST_AUTO_TEST_CASE(of_many_siblings_those_with_the_largest_effects_are_told_newest_first) {
  const IndividualId seed = record_view.add("one", "seed", {}, measured(10.0), "naive.cpp");
  const auto child = [&](double fitness, const std::string& note) {
    return record_view.add(note, "mutate", {seed}, measured(fitness), note);
  };
  child(20.0, "a great gain");
  child(5.0, "a great loss");
  for (int i = 0; i < 12; ++i) child(10.0 + 0.01 * i, "hardly anything " + std::to_string(i));
  const std::string told = slot("lineage", seed);
  const std::size_t loss = told.find("a great loss"), gain = told.find("a great gain");
  BOOST_TEST(loss != std::string::npos, told);
  BOOST_TEST((loss < gain && gain != std::string::npos), told);
  BOOST_TEST(contains(told, "hardly anything 11"), told);
  BOOST_TEST(!contains(told, "hardly anything 3 "), told);
}

BOOST_AUTO_TEST_SUITE_END()
