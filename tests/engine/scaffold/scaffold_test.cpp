// SPDX-License-Identifier: Apache-2.0
// The sources that `cultivar new` writes: manifests that fit their tasks, on both targets and for every task.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "engine/scaffold/task_folder.hpp"
#include "evaluators/variant/variant.hpp"
#include "support/command.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(scaffold)

BOOST_AUTO_TEST_CASE(a_new_task_loads_and_its_seeds_claim_its_workloads) {
  const testing::TemporaryFolder folder;
  TaskOutline outline;
  outline.name = "my_norm", outline.summary = "y = x / rms(x)", outline.rows = "T", outline.columns = "H";
  BOOST_TEST(trouble_of(outline) == "");
  for (const auto& [path, text] : task_files(outline)) testing::write_text(folder / path, text);
  const Task task = load_task(folder.path());
  BOOST_TEST(task.dtypes.size() == 3U);
  int seeds = 0;
  for (const auto& entry : fs::directory_iterator(folder / "seeds")) {
    const Variant variant = load_variant(entry.path(), task);
    const bool host = variant.manifest.target->on_host;
    for (const Workload& w : task.workloads(host ? "cpu_quick" : "gpu")->workloads)
      BOOST_TEST(claims(variant, task, w), entry.path().filename() << " " << w.name);
    ++seeds;
  }
  BOOST_TEST(seeds == 6);
}

BOOST_AUTO_TEST_CASE(names_that_no_folder_of_a_task_can_have_are_refused) {
  TaskOutline outline;
  outline.summary = "y = x / rms(x)";
  outline.name = std::string(64, 'a');
  BOOST_TEST(trouble_of(outline) == "");
  outline.name += 'a';
  BOOST_TEST(trouble_of(outline).find("has 65 letters (use at most 64)") != std::string::npos);
  outline.name = kFolderOfHeaders;
  BOOST_TEST(trouble_of(outline).find("choose another name") != std::string::npos);
  for (const char* word : {"for", "template", "std", "main"}) {
    outline.name = word;
    BOOST_TEST(trouble_of(outline).find("has a meaning in C++ or Python (choose another)") !=
               std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_timed_run_of_a_new_task_moves_much_data) {
  const testing::TemporaryFolder folder;
  TaskOutline outline;
  outline.name = "my_norm", outline.summary = "y = x / rms(x)";
  for (const auto& [path, text] : task_files(outline)) testing::write_text(folder / path, text);
  const Task task = load_task(folder.path());
  // A limit of 12 ms is that of a busy machine; two cores of a small one move about 10 GB/s.
  for (const Workload& w : task.workloads("cpu_quick")->workloads)
    BOOST_TEST(task.bytes(w) / 10e9 > 12e-3, w.name);
}

BOOST_AUTO_TEST_CASE(a_new_seed_fits_every_task_in_every_language) {
  for (const auto& entry : fs::directory_iterator(CULTIVAR_SOURCE_DIR "/configs/tasks")) {
    if (!fs::exists(entry.path() / "task.yaml")) continue;
    const Task task = load_task(entry.path());
    for (const Language language : languages()) {
      const auto variant =
          make_variant(seed_source(task, language, target_named(language->targets.at(0)), "mine"), task);
      BOOST_TEST(variant.has_value(),
                 task.name << " " << name_of(language) << ": " << (variant ? "" : variant.error().message));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_block_of_a_new_cuda_seed_walks_over_the_elements_of_its_row) {
  const Task task = load_task(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax");
  const std::string source = seed_source(task, find_language("cuda_cpp"), target_named("cuda"), "mine");
  BOOST_TEST(source.find("for (int i = threadIdx.x; i < C; i += 256)") != source.npos, source);
}

BOOST_AUTO_TEST_SUITE_END()
