// SPDX-License-Identifier: Apache-2.0
// The check shapes are known without a device, so a kernel that is illegal on one of them is rejected before
// anything runs.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/judge/stages.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

namespace {

const Facts kMachine{{"num_cores", 2},    {"l1_bytes", 32768},  {"l2_bytes", 1048576},
                     {"l3_bytes", 3.4e7}, {"vector_bits", 256}, {"page_bytes", 4096}};
const fs::path kTasks = CULTIVAR_SOURCE_DIR "/configs/tasks";

// The verdict on a cpu softmax whose manifest has these lines, with the usual workloads.
std::optional<Evaluation> said_of(const std::string& lines, const std::string& threads = "num_cores") {
  const Task task = load_task(kTasks / "softmax");
  const auto variant =
      make_variant("/*--- cultivar\nname: rows\ntask: softmax\ntarget: cpu\nrequires: \"dtype == f32\"\n" +
                       lines + "launch:\n  - {kernel: rows, threads: \"" + threads +
                       "\", args: [x, y]}\n---*/\nextern \"C\" void rows(const float*, float*) {}\n",
                   task);
  BOOST_TEST_REQUIRE(variant.has_value(), (variant ? "" : variant.error().text()));
  return illegal_on_check_shapes(task, *variant, kMachine);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(check_shapes)

BOOST_AUTO_TEST_CASE(a_constraint_that_fails_on_a_check_shape_names_it_and_its_stage) {
  BOOST_TEST(!said_of("").has_value());
  BOOST_TEST(!said_of("constraints: [\"R >= 1\"]\n").has_value());
  const auto smoke = said_of("constraints: [\"R > 16\"]\n");
  BOOST_TEST_REQUIRE(smoke.has_value());
  BOOST_TEST((smoke->stage == Stage::lint));
  BOOST_TEST(smoke->reason.find("a constraint does not hold on the check shape R16_C256_f32 (smoke)") == 0u,
             smoke->reason);
  BOOST_TEST(smoke->diagnostics.find("narrow `requires`") != std::string::npos, smoke->diagnostics);
  const auto edge = said_of("constraints: [\"C != 7\"]\n");
  BOOST_TEST_REQUIRE(edge.has_value());
  BOOST_TEST(edge->reason.find("(edge)") != std::string::npos, edge->reason);
}

BOOST_AUTO_TEST_CASE(a_constraint_or_let_without_a_value_is_told_from_one_that_does_not_hold) {
  const auto words = [](const std::string& lines) {
    const auto refused = said_of(lines);
    return refused ? refused->reason + ": " + refused->diagnostics : "";
  };
  const std::string constraint = words("constraints: [\"log2(C - 256) < 99\"]\n");
  BOOST_TEST(constraint.find("an expression has no value on the check shape R16_C256_f32 (smoke): the "
                             "constraint 'log2(C - 256) < 99': has no value (check for log2 of a number that "
                             "is not positive) (with C=256)") == 0u,
             constraint);
  const std::string let = words("let: {per: \"1 / (C - 256)\"}\nconstraints: [\"per < 99\"]\n");
  BOOST_TEST(let.find("an expression has no value on the check shape R16_C256_f32 (smoke): let.per: '1 / (C "
                      "- 256)': has no value (check for x / 0)") == 0u,
             let);
}

BOOST_AUTO_TEST_CASE(a_launch_without_a_value_on_a_check_shape_is_reported_too) {
  const auto refused = said_of("", "min(R - 1, 2)");
  BOOST_TEST_REQUIRE(refused.has_value());
  BOOST_TEST(refused->reason.find("no legal plan on the check shape R1_C4096_f32 (sweep)") == 0u,
             refused->reason);
}

BOOST_AUTO_TEST_CASE(a_shape_that_only_a_confirmation_compiles_counts_and_one_that_is_not_claimed_does_not) {
  // Of the edge shapes a search compiles only the first for a kernel that is specialized for C.
  BOOST_TEST(said_of("constraints: [\"C != 7\"]\nspecialize: [C]\n").has_value());
  BOOST_TEST(!said_of("constraints: [\"dtype == f32\"]\n").has_value());
}

BOOST_AUTO_TEST_CASE(every_seed_is_legal_on_the_check_shapes_of_its_task) {
  int seeds = 0;
  for (const auto& folder : fs::directory_iterator(kTasks)) {
    if (!fs::exists(folder.path() / "task.yaml")) continue;
    const Task task = load_task(folder.path());
    for (const auto& file : fs::directory_iterator(folder.path() / "seeds")) {
      const bool cuda = file.path().extension() == ".cu";
      if (!cuda && file.path().extension() != ".cpp") continue;
      const Variant seed = load_variant(file.path(), task);
      const Facts facts = cuda ? known_device("h100")->facts : kMachine;
      const auto refused = illegal_on_check_shapes(task, seed, facts);
      BOOST_TEST(!refused.has_value(), file.path().string() << ": " << (refused ? refused->diagnostics : ""));
      ++seeds;
    }
  }
  BOOST_TEST(seeds > 8);
}

BOOST_AUTO_TEST_SUITE_END()
