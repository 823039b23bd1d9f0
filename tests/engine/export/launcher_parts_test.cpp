// What a bundle's C++ takes over from a task: names and expressions that were checked, and words.
#include "engine/export/launcher_parts.hpp"

#include <boost/test/unit_test.hpp>
#include <sstream>

#include "support/contains.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(launcher_parts)

BOOST_AUTO_TEST_CASE(words_of_a_task_stay_in_their_comment) {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  task.dimensions.front().about = "rows\n#include </etc/passwd>\n\x1b[2J\xff";
  task.dimensions.back().about = "columns \\";
  auto variant = make_variant(softmax_source("words"), task);
  BOOST_REQUIRE(variant);
  const std::vector<Workload> workloads = task.workload_sets.front().workloads;
  const Facts facts;
  const LauncherInput input{task, *variant, facts, workloads};
  std::istringstream lines(argument_members(input, cpp_type));
  int comments = 0;
  for (std::string line; std::getline(lines, line);) {
    BOOST_TEST(line.starts_with("  "), line);
    BOOST_TEST(contains(line, ";  // "), line);
    BOOST_TEST(!line.ends_with("\\"), line);
    BOOST_TEST(line.find_first_of("\x1b\xff") == std::string::npos, line);
    ++comments;
  }
  BOOST_TEST(comments ==
             static_cast<int>(task.dimensions.size() + task.parameters.size() + task.tensors.size()));
}

BOOST_AUTO_TEST_SUITE_END()
