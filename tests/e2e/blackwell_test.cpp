// SPDX-License-Identifier: Apache-2.0
// long: 60 s, configs/tasks, evaluators/languages/cuda_cpp
// Every seed that uses nothing of Hopper alone compiles for Blackwell and passes the screen, without a GPU.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>

#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"
#include "support/own_task.hpp"
#include "support/places.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;
using cultivar::cuda_test::needs_nvrtc;

namespace {

CommandResult screened(const std::string& task, std::vector<std::string> seeds,
                       const std::string& architecture, std::vector<std::string> more = {}) {
  std::vector<std::string> command{"evaluate", task};
  command.insert(command.end(), seeds.begin(), seeds.end());
  command.insert(command.end(), {"--target", "cuda", "--arch", architecture, "--stop-after", "screen"});
  command.insert(command.end(), more.begin(), more.end());
  return cultivar_in("/", command);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(blackwell, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(every_generic_seed_compiles_for_blackwell_and_passes_the_screen) {
  std::map<std::string, std::vector<std::string>> generic;
  for (const auto& file : fs::recursive_directory_iterator(fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks"))
    if (file.path().extension() == ".cu" && !contains(read_text(file.path()), "wgmma") &&
        file.path().stem() != "cuda_persistent")  // which has it by a header
      generic[file.path().parent_path().parent_path().filename()].push_back(file.path().stem());
  BOOST_TEST(generic.size() >= 17U);
  for (const char* architecture : {"sm_100a", "sm_120a"})
    for (const auto& [task, seeds] : generic) {
      const auto result = screened(task, seeds, architecture);
      BOOST_TEST(result.exit == 0, task << " on " << architecture << ": " << result.out << result.err);
    }
}

BOOST_AUTO_TEST_CASE(a_seed_with_instructions_of_hopper_is_refused_by_their_name) {
  const auto result = screened("linear", {"cuda_skinny"}, "sm_100a", {"--workloads", "decode"});
  BOOST_TEST(result.exit == 1);
  BOOST_TEST(contains(cultivar::without_hopper("sm_100a"), "cuda_skinny"));
  BOOST_TEST(cultivar::without_hopper("sm_90a") == "");
  BOOST_TEST(contains(result.out + result.err, "'wgmma.fence' not supported on .target 'sm_100a'"),
             result.out + result.err);
}

BOOST_AUTO_TEST_SUITE_END()
