// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/claims.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "evaluators/judge/check_shapes.hpp"

using namespace cultivar;

namespace {

const std::string kTasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/";

// A seed of the task with this claim instead of its own.
Variant claiming(const Task& task, const std::string& claim) {
  Variant variant = load_variant(kTasks + task.name + "/seeds/vectorised.cpp", task);
  variant.manifest.requires_ = Expression::parse(claim).value();
  return variant;
}

std::optional<Workload> singled_out_by(const Task& task, const std::string& claim, std::uint64_t seed) {
  const Variant variant = claiming(task, claim);
  return singled_out(task, variant, listed_shapes(task, variant.manifest.target), seed);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(claims)

BOOST_AUTO_TEST_CASE(a_claim_that_excludes_a_listed_shape_alone_is_found) {
  const Task task = load_task(kTasks + "softmax");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const char* claim :
         {"dtype == f32 && R != 3001", "dtype == f32 && C != 1333", "dtype == f32 && R * C != 3001 * 1333",
          "dtype == f32 && !(R == 37 && C == 1000)", "dtype == f32 && (R < 3000 || R > 3002)",
          "dtype == f32 && C != 50000", "dtype == f32 && C % 8 == 0 && C != 1000", "dtype == f32 && C != 7",
          "dtype == f32 && R % 3 != 1", "dtype == f32 && (R < 2600 || R > 3400)",
          "dtype == f32 && (R < 1000 || R > 9000 || C < 400 || C > 4000)",
          "dtype == f32 && (R < 900 || R > 11000 || C < 1200 || C > 1500)"})
      BOOST_TEST(singled_out_by(task, claim, seed).has_value(), claim);
    for (const char* claim :
         {"dtype == f32", "dtype == f32 && C % 2 == 0", "dtype == f32 && C <= 32768",
          "dtype == f32 && C >= 8", "dtype == f32 && R >= 3", "dtype == f32 && C % 64 == 0 && R % 8 == 0",
          "dtype == f32 && C <= 49999", "dtype == f32 && C % 96 == 0", "dtype == f32 && C % 8 == 0",
          "dtype == f32 && C % 16 == 0", "dtype == f32 && R % 4 == 0", "dtype == f32 && R % 64 == 0",
          "dtype == f32 && R % 3 == 0"})
      BOOST_TEST(!singled_out_by(task, claim, seed).has_value(), claim);
  }
}

BOOST_AUTO_TEST_CASE(no_seed_singles_out_a_shape) {
  namespace fs = std::filesystem;
  int seeds = 0;
  for (const auto& folder : fs::directory_iterator(kTasks)) {
    if (!fs::exists(folder.path() / "task.yaml")) continue;
    const Task task = load_task(folder.path());
    for (const auto& file : fs::directory_iterator(folder.path() / "seeds")) {
      if (file.path().extension() == ".md") continue;
      const Variant variant = load_variant(file.path(), task);
      ++seeds;
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto shape = singled_out(task, variant, listed_shapes(task, variant.manifest.target), seed);
        BOOST_TEST(!shape.has_value(), file.path().string() << ": " << (shape ? shape->name : ""));
      }
    }
  }
  BOOST_TEST(seeds >= 10);
}

BOOST_AUTO_TEST_CASE(claims_of_attention_kernels_single_out_nothing) {
  const Task task = load_task(kTasks + "attention_forward");
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const char* claim :
         {"dtype == f32 && D % 16 == 0", "dtype == f32 && H == H_kv", "dtype == f32 && S_q <= S_kv",
          "dtype == f32 && D == 64 && !causal && S_q % 64 == 0", "dtype == f32 && B == 1",
          "dtype == f32 && (D == 64 || D == 128 || D == 256) && scale > 0"})
      BOOST_TEST(!singled_out_by(task, claim, seed).has_value(), claim);
}

BOOST_AUTO_TEST_CASE(a_claim_that_excludes_a_listed_value_of_a_parameter_is_found) {
  const Task task = load_task(kTasks + "attention_forward");
  Variant variant = load_variant(kTasks + "attention_forward/seeds/naive.cpp", task);
  const auto listed = listed_shapes(task, variant.manifest.target);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto found = [&](const char* claim) {
      variant.manifest.requires_ = Expression::parse(claim).value();
      return singled_out(task, variant, listed, seed).has_value();
    };
    for (const char* claim : {"dtype == f32 && window != 50", "dtype == f32 && softcap != 2",
                              "dtype == f32 && (window < 30 || window > 40)"})
      BOOST_TEST(found(claim), claim);
    for (const char* claim :
         {"dtype == f32 && window == 0", "dtype == f32 && softcap == 0", "dtype == f32 && window % 64 == 0",
          "dtype == f32 && (softcap == 0 || softcap >= 2)", "dtype == f32 && window <= 50"})
      BOOST_TEST(!found(claim), claim);
  }
}

BOOST_AUTO_TEST_CASE(requires_has_a_value_on_every_listed_shape) {
  const Task task = load_task(kTasks + "softmax");
  const auto timed = task.workloads("cpu_quick")->workloads;
  const auto trouble = [&](const std::string& claim) {
    const auto found = claim_trouble(task, claiming(task, claim), timed, 1);
    return found ? found->reason + "\n" + found->diagnostics : "";
  };
  BOOST_TEST(trouble("dtype == f32").empty());
  for (const char* claim : {"R % 0", "1 / (C - 7)", "sqrt(R - 100)"}) {
    const std::string words = trouble(claim);
    BOOST_TEST(words.find("`requires` has no value on ") == 0U, claim << ": " << words);
    BOOST_TEST(words.find("(check for ") != std::string::npos, words);
  }
  BOOST_TEST(trouble("C == 7").find("does not claim") != std::string::npos);
  BOOST_TEST(trouble("R != 3001").find("singles out R3001_C1333") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(alternatives_that_no_shape_reaches_are_named_with_what_is_left_without_them) {
  const Task task = load_task(kTasks + "attention_forward");
  const std::vector<Workload> shapes = task.workloads("cpu_quick")->workloads;  // heads of 64, f32
  const auto beyond = [&](const std::string& claim) {
    std::string words;
    for (const ClaimedAlternative& each : alternatives_beyond(task, claiming(task, claim), shapes))
      words += each.text + " -> " + each.narrowed + "; ";
    return words;
  };
  BOOST_TEST(beyond("dtype == f32") == "");
  BOOST_TEST(beyond("dtype == f32 && (H < 100000 || H == 77777777777)") ==
             "H == 77777777777 -> dtype == f32 && (H < 100000); ");
  BOOST_TEST(beyond("D == 64 || D == 72") == "D == 72 -> D == 64; ");
  BOOST_TEST(beyond("D == 72 || D == 64") == "D == 72 -> D == 64; ");
  BOOST_TEST(beyond("dtype == f32 && (D == 64 || D == 72 || D == 96) && H > 0") ==
             "D == 72 -> dtype == f32 && (D == 64 || D == 96) && H > 0; "
             "D == 96 -> dtype == f32 && (D == 64 || D == 72) && H > 0; ");
  BOOST_TEST(beyond("D == 64 && (causal || !causal && S_q > 0)") == "");
  BOOST_TEST(beyond("(D == 64) + 0 * (B) || min(D, 72 * 2) == 72") ==
             "min(D, 72 * 2) == 72 -> (D == 64) + 0 * (B); ");
}

BOOST_AUTO_TEST_SUITE_END()
