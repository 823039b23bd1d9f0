#include "evaluators/judge/drawn_shapes.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <set>

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

BOOST_AUTO_TEST_SUITE(drawn_shapes)

BOOST_AUTO_TEST_CASE(drawn_shapes_are_new_legal_claimed_and_within_the_limits) {
  for (const char* name : {"softmax", "attention_forward"}) {
    const Task task = load_task(kTasks + name);
    const Variant variant = load_variant(kTasks + name + "/seeds/vectorised.cpp", task);
    const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
    const ShapeLimits limits = limits_of(task, around, 1.0);
    std::set<std::string> listed, all;
    for (const Workload& w : listed_shapes(task, variant.manifest.target)) listed.insert(w.name);
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const auto drawn =
          draw_shapes(task, variant, around, limits, 4, seed, [](const Workload&) { return true; });
      BOOST_TEST(drawn.size() == 4U);
      for (const Workload& w : drawn) {
        BOOST_TEST(!listed.contains(w.name), w.name);
        BOOST_TEST(claims(variant, task, w), w.name);
        BOOST_TEST(task.flops(w) <= limits.flops, w.name);
        all.insert(w.name);
      }
    }
    BOOST_TEST(all.size() > 180U);  // of 200
  }
}

BOOST_AUTO_TEST_CASE(parameters_that_no_file_gives_are_drawn_too) {
  const Task task = load_task(kTasks + "attention_forward");
  const Variant variant = load_variant(kTasks + "attention_forward/seeds/vectorised.cpp", task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  int other_scales = 0, masked = 0;
  for (const Workload& w : draw_shapes(task, variant, around, limits_of(task, around, 1.0), 100, 3,
                                       [](const Workload&) { return true; })) {
    const double scale = w.values.at("scale"), usual = 1 / std::sqrt(w.values.at("D"));
    const bool other = std::abs(scale - usual) > 0.01 * usual;
    other_scales += other;
    masked += w.values.at("causal") != 0;
    if (other) BOOST_TEST((scale > 0 && scale == static_cast<double>(static_cast<float>(scale))), w.name);
  }
  BOOST_TEST((other_scales > 25 && other_scales < 75), other_scales);
  BOOST_TEST((masked > 25 && masked < 75), masked);
}

BOOST_AUTO_TEST_CASE(claims_of_multiples_of_tiles_are_met) {
  const Task task = load_task(kTasks + "attention_forward");
  const Variant variant =
      claiming(task, "D == 64 && dtype == f32 && !causal && H == H_kv && S_q % 64 == 0 && S_kv % 64 == 0");
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  BOOST_REQUIRE(!around.empty());
  const auto drawn = draw_shapes(task, variant, around, limits_of(task, around, 1.0), 16, 7,
                                 [](const Workload&) { return true; });
  BOOST_TEST(drawn.size() == 16U);
}

BOOST_AUTO_TEST_CASE(what_is_not_usable_is_not_drawn) {
  const Task task = load_task(kTasks + "softmax");
  const Variant variant = claiming(task, "dtype == f32");
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  const auto drawn = draw_shapes(task, variant, around, limits_of(task, around, 1.0), 4, 1,
                                 [](const Workload&) { return false; });
  BOOST_TEST(drawn.empty());
}

BOOST_AUTO_TEST_CASE(a_claim_that_excludes_a_listed_shape_alone_is_found) {
  const Task task = load_task(kTasks + "softmax");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const char* claim :
         {"dtype == f32 && R != 3001", "dtype == f32 && C != 1333", "dtype == f32 && R * C != 3001 * 1333",
          "dtype == f32 && !(R == 37 && C == 1000)", "dtype == f32 && (R < 3000 || R > 3002)",
          "dtype == f32 && C != 50000", "dtype == f32 && C % 8 == 0 && C != 1000", "dtype == f32 && C != 7",
          "dtype == f32 && R % 3 != 1", "dtype == f32 && (R < 2600 || R > 3400)"})
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

BOOST_AUTO_TEST_SUITE_END()
