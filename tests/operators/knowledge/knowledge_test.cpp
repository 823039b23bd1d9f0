// SPDX-License-Identifier: Apache-2.0
#include "operators/knowledge/knowledge.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "evaluators/system/error.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using cultivar::testing::ScratchFolder;

namespace {

const std::filesystem::path kOwn = std::string(CULTIVAR_SOURCE_DIR) + "/operators/knowledge/notes";

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::string complaint(const std::filesystem::path& folder) {
  try {
    load_notes({folder});
  } catch (const InputError& e) {
    return e.what();
  }
  return "no complaint";
}

std::vector<std::string> names(const std::vector<const Note*>& notes) {
  std::vector<std::string> result;
  for (const Note* note : notes) result.push_back(note->name);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(knowledge)

BOOST_AUTO_TEST_CASE(our_own_notes_are_whole) {
  const auto notes = load_notes({kOwn});
  BOOST_TEST(notes.size() >= 10u);
  for (const Note& note : notes) {
    BOOST_TEST_CONTEXT(note.name) {
      BOOST_TEST(!note.title.empty());
      BOOST_TEST(!note.bottlenecks.empty());
      BOOST_TEST(note.body.size() > 400u);
      BOOST_TEST(note.body.size() < 6000u);  // a note has to fit a prompt beside others
      BOOST_TEST(note.body.find("---\n") == std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_note_is_left_out_when_the_kernel_does_already_what_it_advises) {
  const auto notes = load_notes({kOwn});
  NoteQuery situation{"cpu", "softmax", "", {"scalar_calls", "traffic"}, "", "", "y[i] = std::exp(x[i]);"};
  const auto has = [&](const std::string& name) {
    const auto picked = names(pick_notes(notes, situation));
    return std::ranges::find(picked, name) != picked.end();
  };
  BOOST_TEST(has("exponentials_on_cpu"));
  BOOST_TEST(has("streamed_stores_on_cpu"));
  BOOST_TEST(has("cpu_kernels"));
  situation.source = "const V t = x * 1.44269504f + 12582912.0f; _mm512_stream_ps(y, t);";
  BOOST_TEST(!has("exponentials_on_cpu"));
  BOOST_TEST(!has("streamed_stores_on_cpu"));
  BOOST_TEST(!has("cpu_kernels"));
}

BOOST_AUTO_TEST_CASE(what_weighs_most_comes_first_and_the_compilers_words_before_all) {
  const auto notes = load_notes({kOwn});
  NoteQuery situation{"cuda", "attention_forward", "sm_90a", {"bank_conflicts", "tail"}, "", ""};
  auto picked = names(pick_notes(notes, situation));
  BOOST_TEST_REQUIRE(picked.size() >= 2u);
  BOOST_TEST(picked.front() == "shared_memory_banks");
  const auto at = [&](const std::string& name) { return std::find(picked.begin(), picked.end(), name); };
  BOOST_TEST((at("tiles_waves_tail") != picked.end()));
  situation.compiler_output = "ptxas info: (C7512) Potential Performance Loss: wgmma.mma_async";
  picked = names(pick_notes(notes, situation));
  BOOST_TEST((at("wgmma") < at("shared_memory_banks")));
}

BOOST_AUTO_TEST_CASE(notes_of_other_cards_targets_and_tasks_are_omitted) {
  const auto notes = load_notes({kOwn});
  const auto has = [&](const NoteQuery& situation, const std::string& name) {
    const auto picked = names(pick_notes(notes, situation));
    return std::find(picked.begin(), picked.end(), name) != picked.end();
  };
  BOOST_TEST(has({"cuda", "attention_forward", "sm_90a", {}, "", ""}, "attention_on_hopper"));
  BOOST_TEST(!has({"cuda", "attention_forward", "sm_90a", {}, "", ""}, "blackwell_attention"));
  BOOST_TEST(has({"cuda", "attention_forward", "sm_100a", {}, "", ""}, "blackwell_attention"));
  BOOST_TEST(!has({"cpu", "attention_forward", "", {"tensor_pipe"}, "", ""}, "wgmma"));
  BOOST_TEST(!has({"cuda", "softmax", "sm_90a", {"tensor_pipe_idle"}, "", ""}, "attention_on_hopper"));
  // A row kernel is told about rows, a product about products, and neither about the other.
  const std::string row = intensity_class(1.25, 226.0), product = intensity_class(1365.0, 226.0);
  BOOST_TEST(has({"cuda", "mine", "sm_90a", {"exposed_latency"}, "", row}, "reductions_and_softmax"));
  BOOST_TEST(!has({"cuda", "mine", "sm_90a", {"exposed_latency"}, "", row}, "wgmma"));
  BOOST_TEST(has({"cuda", "mine", "sm_90a", {"exposed_latency"}, "", product}, "wgmma"));
  BOOST_TEST(!has({"cuda", "mine", "sm_90a", {"exposed_latency"}, "", product}, "reductions_and_softmax"));
  BOOST_TEST(has({"cuda", "mine", "sm_90a", {"dram"}, "", intensity_class(16.0, 226.0)}, "skinny_products"));
  BOOST_TEST(has({"cuda", "mine", "sm_90a", {"exposed_latency"}, "", ""},
                 "wgmma"));  // not known: nothing is left out
}

BOOST_AUTO_TEST_CASE(notes_for_the_cpu_speak_of_no_gpu) {
  int own = 0;
  for (const Note& note : load_notes({kOwn})) {
    if (!note.targets.empty() && std::ranges::find(note.targets, "cpu") == note.targets.end()) continue;
    ++own;
    for (const char* word : {"warp", "shared memory", "SM ", "FFMA", "shuffle", "L1::"})
      BOOST_TEST(note.body.find(word) == std::string::npos, note.name << ": " << word);
  }
  BOOST_TEST(own >= 2);
}

BOOST_AUTO_TEST_CASE(a_users_note_replaces_ours_of_the_same_name) {
  ScratchFolder scratch;
  write(scratch.path() / "wgmma.md", "---\ntitle: Mine\nbottlenecks: [tail]\n---\nUse mine.\n");
  write(scratch.path() / "README.md", "no head here");
  const auto notes = load_notes({kOwn, scratch.path()});
  const auto mine = std::find_if(notes.begin(), notes.end(), [](const Note& n) { return n.name == "wgmma"; });
  BOOST_TEST_REQUIRE((mine != notes.end()));
  BOOST_TEST(mine->title == "Mine");
  BOOST_TEST(mine->body == "Use mine.\n");
}

BOOST_AUTO_TEST_CASE(a_bad_note_is_named_with_its_line) {
  ScratchFolder scratch;
  BOOST_TEST(complaint(scratch.path() / "gone").find("gone") != std::string::npos);
  const auto file = scratch.path() / "mine.md";
  write(file, "# no head\n");
  BOOST_TEST(complaint(scratch.path()).find("mine.md:1") != std::string::npos);
  write(file, "---\ntitle: Mine\nbottleneck: [tail]\n---\nwords\n");
  const std::string message = complaint(scratch.path());
  BOOST_TEST(message.find("mine.md:3") != std::string::npos, message);
  BOOST_TEST(message.find("bottlenecks") != std::string::npos, message);
  write(file, "---\nbottlenecks: [tail]\n---\nwords\n");
  BOOST_TEST(complaint(scratch.path()).find("'title' is missing") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
