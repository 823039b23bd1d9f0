// Pieces of a question about a search, from a record in memory.
#include "operators/prompts/prompt_writer.hpp"

#include <boost/test/unit_test.hpp>

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

BOOST_AUTO_TEST_SUITE_END()
