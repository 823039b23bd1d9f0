// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/outcomes.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <set>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"

using namespace cultivar;

namespace {

namespace fs = std::filesystem;

const fs::path kTasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";

// A product of matrices with this manifest.
Variant product(const Task& task, const std::string& lines) {
  auto made = make_variant(
      "/*--- cultivar\nname: product\ntask: matmul\ntarget: cpu\n"
      "requires: \"dtype == f32\"\n" +
          lines +
          "launch:\n  - kernel: matmul\n    threads: num_cores\n"
          "    args: [a, b, c, M, N, K, {value: n, type: i32}, thread, threads]\n---*/\n"
          "extern \"C\" void matmul() {}\n",
      task);
  BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
  return *made;
}

std::vector<Workload> near(const Task& task, const Variant& variant) {
  std::vector<Workload> shapes = every_claimed_shape(task, variant);
  BOOST_REQUIRE(!shapes.empty());
  return shapes;
}

const Facts kHere{{"num_cores", 4},     {"l1_bytes", 32768},  {"l2_bytes", 0x1p20},
                  {"l3_bytes", 0x1p25}, {"vector_bits", 256}, {"page_bytes", 4096}};

bool is_legal_there(const Place&) {
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(outcomes)

BOOST_AUTO_TEST_CASE(both_outcomes_of_what_is_no_tunable) {
  const Task task = load_task(kTasks / "matmul");
  const Variant variant = product(task,
                                  "tunables:\n  T: {values: [8, 16], default: 8}\n"
                                  "let:\n  n: \"T > 8 ? 1 : M >= 512 ? 8 : 4\"\n");
  const std::vector<Outcome> all = outcomes_of(variant);
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST(all[0].where == "let.n");
  BOOST_TEST(all[0].condition.text() == "M >= 512");
  BOOST_TEST((all[0].holds && !all[1].holds));
}

BOOST_AUTO_TEST_CASE(a_place_is_drawn_for_every_outcome_of_common_conditions) {
  const Task task = load_task(kTasks / "matmul");
  for (const char* condition :
       {"M >= 512 && N >= 512 && K >= 512 ? 8 : 4", "4 * K * N > l3_bytes ? 256 : K", "N == 3072 ? 1 : 2",
        "M == N ? 1 : 2", "K > 64 * M ? 1 : 2", "M % 7 == 3 && N % 5 == 2 ? 1 : 2", "num_cores == 1 ? 1 : 2",
        "M * N < 4 * num_cores ? 1 : 2"}) {
    const Variant variant = product(task, fmt::format("let:\n  n: \"{}\"\n", condition));
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const std::vector<Workload> shapes = near(task, variant);
      std::vector<Outcome> unreached = outcomes_of(variant);
      const std::size_t all = unreached.size();
      const std::vector<Place> places =
          draw_outcomes(task, variant, kHere, shapes, unreached, seed, is_legal_there);
      BOOST_TEST((places.size() >= all && places.size() <= kOutcomePlaces * all), condition);
      BOOST_TEST(unreached.empty(), condition);
      BOOST_TEST(!claimed_beyond(task, variant, kHere, shapes, unreached, seed, is_legal_there), condition);
    }
  }
}

BOOST_AUTO_TEST_CASE(places_of_an_outcome_have_all_remainders) {
  const Task task = load_task(kTasks / "matmul");
  const Variant variant = product(task, "let:\n  n: \"M >= 512 && N >= 512 && K >= 512 ? 8 : 4\"\n");
  const std::vector<Workload> shapes = near(task, variant);
  int shown = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Outcome> unreached = outcomes_of(variant);
    bool odd = false;
    for (const Place& place : draw_outcomes(task, variant, kHere, shapes, unreached, seed, is_legal_there)) {
      const Bindings& v = place.shape.values;
      odd = odd ||
            (v.at("M") >= 512 && v.at("N") >= 512 && v.at("K") >= 512 && std::fmod(v.at("M"), 8.0) >= 4.0);
    }
    shown += odd;
  }
  BOOST_TEST(shown == 20);
}

BOOST_AUTO_TEST_CASE(what_only_larger_shapes_decide_is_claimed_but_not_checked) {
  const Task task = load_task(kTasks / "matmul");
  const auto beyond = [&](const std::string& lines) {
    const Variant variant = product(task, lines);
    const std::vector<Workload> shapes = near(task, variant);
    std::vector<Outcome> unreached = outcomes_beyond(variant, task, kHere, shapes);
    draw_outcomes(task, variant, kHere, shapes, unreached, 1, is_legal_there);
    return claimed_beyond(task, variant, kHere, shapes, unreached, 1, is_legal_there);
  };
  const auto found = beyond("let:\n  n: \"4 * K * N > 6000000000 ? 256 : K\"\n");
  BOOST_REQUIRE(found);
  BOOST_TEST(found->outcome.holds);
  BOOST_TEST(found->outcome.where == "let.n");
  BOOST_TEST(4 * found->shape.values.at("K") * found->shape.values.at("N") > 6e9);
  // A block of no rows where a row is longer than the cache.
  const auto none = beyond("let:\n  n: \"min(256, floor(l2_bytes / (4 * K)))\"\n");
  BOOST_REQUIRE(none);
  BOOST_TEST(none->outcome.condition.text() == "n < 1");
  // No shape is so small.
  BOOST_TEST(!beyond("let:\n  n: \"M < 1 ? 256 : K\"\n"));
}

BOOST_AUTO_TEST_CASE(a_device_with_memory_of_its_own_shows_what_begins_at_a_gibibyte) {
  const Task task = load_task(kTasks / "gelu");
  const auto made = make_variant(
      "/*--- cultivar\nname: kept\ntask: gelu\ntarget: cuda\nspecialize: [dtype]\n"
      "launch:\n  - kernel: gelu\n    grid: [\"num_sms\", 1, 1]\n    block: [256, 1, 1]\n"
      "    args: [x, y, {value: \"max(0, R * C - 1073741824 / element_bytes)\", type: i64}]\n---*/\n"
      "extern \"C\" __global__ void gelu() {}\n",
      task);
  BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().text()));
  const Facts here{{"num_sms", 132},         {"smem_max", 232448},  {"l2_bytes", 0x1p25},
                   {"registers_max", 65536}, {"threads_max", 2048}, {"compute_capability", 90}};
  const std::vector<Workload> shapes = near(task, *made);
  std::vector<Outcome> unreached = outcomes_beyond(*made, task, here, shapes);
  BOOST_REQUIRE(unreached.size() == 1u);
  const std::vector<Place> places = draw_outcomes(task, *made, here, shapes, unreached, 1, is_legal_there);
  BOOST_TEST(unreached.empty());
  BOOST_REQUIRE(!places.empty());
  for (const Place& place : places) {
    double bytes = 0.0;
    for (const TensorSpec& tensor : task.tensors)
      bytes += static_cast<double>(task.bytes_of(tensor, place.shape));
    BOOST_TEST((bytes > 0x1p31 && bytes <= kDeviceShapes.bytes));
  }
}

BOOST_AUTO_TEST_CASE(another_machine_has_other_cores_and_caches) {
  const Task task = load_task(kTasks / "matmul");
  const Variant variant = product(task, "let:\n  n: \"K\"\n");
  BOOST_TEST(facts_of(variant, kHere, 0) == kHere);
  std::set<double> cores, caches;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Facts facts = facts_of(variant, kHere, seed);
    cores.insert(facts.at("num_cores"));
    caches.insert(facts.at("l2_bytes"));
    BOOST_TEST(facts.at("page_bytes") == 4096);
  }
  BOOST_TEST((cores == std::set<double>{1, 2, 3, 4}));
  BOOST_TEST(caches.size() == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
