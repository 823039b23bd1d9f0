// SPDX-License-Identifier: Apache-2.0
// How probably a kernel that is wrong on a share of shapes, value patterns or rows survives its confirmation:
// by the formulas of evaluators/check/README.md, and by simulation with the functions that draw them.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "evaluators/judge/drawn_checks.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/specialisation_checks.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/timing/timing_stock.hpp"

using namespace cultivar;

namespace {

// Of softmax: its sweep and edge shapes, and at least so many shapes at foci in a confirmation.
constexpr std::size_t kListed = 14, kFocused = 150;

const std::string kFolder = std::string(CULTIVAR_SOURCE_DIR) + "/";

Variant seed_of(const Task& task) {
  return load_variant(kFolder + "configs/tasks/softmax/seeds/vectorised.cpp", task);
}

// Whether a kernel that is wrong on this share of everything is wrong on this thing. `kernel` is its number.
bool wrong_on(std::string_view thing, double share, std::uint64_t kernel) {
  return static_cast<double>(derive_seed(kernel, thing) >> 11) * 0x1p-53 < share;
}

// Passes if `survived` of `trials` agrees with the probability within four standard deviations.
void check_share(int survived, int trials, double probability, const std::string& what) {
  const double deviation = std::sqrt(std::max(probability * (1 - probability), 0.25 / trials) * trials);
  BOOST_TEST_MESSAGE(what << ": " << survived << " of " << trials << " survive, " << probability * trials
                          << " expected");
  BOOST_TEST(std::abs(survived - probability * trials) <= 4 * deviation + 1, what);
}

double by_shapes(double share) {
  return std::pow(1 - share, kDrawnConfirming.small);
}
double by_foci(double share) {
  return std::pow(1 - share, kFocused);
}
// A fair coin gives half of the runs on listed sweep and edge shapes mixed values, and of the runs on drawn
// shapes two in seven have them.
double by_patterns(double share, std::size_t listed, std::size_t drawn) {
  return std::pow(1 - share / 2, listed) * std::pow(1 - share * 2 / 7, drawn);
}
double by_assignments(double share) {
  return std::pow(1 - share, kDrawnAssignments);
}
double by_rows(double share, int rows, int runs) {
  return std::pow(1 - share, rows * runs);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(survival)

BOOST_AUTO_TEST_CASE(drawn_shapes_find_a_kernel_that_is_wrong_on_a_share_of_shapes) {
  const Task task = load_task(kFolder + "configs/tasks/softmax");
  const Variant variant = seed_of(task);
  std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  const ShapeLimits limits = limits_of(task, around, 1.0);
  constexpr int trials = 400;
  for (const double share : {1.0 / 4, 1.0 / 16, 1.0 / 64}) {
    int survived = 0;
    for (std::uint64_t kernel = 1; kernel <= trials; ++kernel) {
      const auto drawn = draw_shapes(task, variant, around, limits, kDrawnConfirming.small,
                                     derive_seed(kernel, "evaluation"), [](const Workload&) { return true; });
      BOOST_REQUIRE(drawn.size() == kDrawnConfirming.small);
      survived +=
          std::ranges::none_of(drawn, [&](const Workload& w) { return wrong_on(w.name, share, kernel); });
    }
    check_share(survived, trials, by_shapes(share), fmt::format("shapes, share {:.3g}", share));
  }
}

BOOST_AUTO_TEST_CASE(a_confirmation_finds_as_many_shapes_at_foci_as_the_readme_counts) {
  const Task task = load_task(kFolder + "configs/tasks/softmax");
  const Variant variant = seed_of(task);
  const std::vector<Workload> around = claimed_shapes(task, Stage::sweep, variant);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto drawn =
        draw_focused_shapes(task, variant, around, {3e7, 0x1p21}, foci_of(task, variant, seed),
                            kDrawnConfirming.focused, seed, [](const Workload&) { return true; });
    BOOST_TEST(drawn.size() >= kFocused);
  }
}

BOOST_AUTO_TEST_CASE(mixed_values_find_a_kernel_that_is_wrong_on_a_share_of_patterns) {
  const Task task = load_task(kFolder + "configs/tasks/softmax");
  const Workload& workload = task.stress_shapes.front();
  constexpr int trials = 400;
  constexpr std::size_t runs = 34;  // all of listed shapes
  for (const double share : {1.0 / 4, 1.0 / 16, 1.0 / 64}) {
    int survived = 0;
    for (std::uint64_t kernel = 1; kernel <= trials; ++kernel) {
      bool wrong = false;
      for (std::size_t run = 0; run < runs && !wrong; ++run) {
        const std::uint64_t seed = derive_seed(kernel, "run", run);
        if (derive_seed(seed, "mixed") % 2 != 0) continue;
        wrong = wrong_on(make_inputs(nullptr, task, workload, seed, {}, seed).mixture, share, kernel);
      }
      survived += !wrong;
    }
    check_share(survived, trials, by_patterns(share, runs, 0), fmt::format("patterns, share {:.3g}", share));
  }
}

BOOST_AUTO_TEST_CASE(the_rows_of_timed_runs_find_a_kernel_that_is_wrong_on_a_share_of_rows) {
  const Task task = load_task(kFolder + "configs/tasks/softmax");
  const RowLayout layout(task, task.workloads("cpu_quick")->workloads.front());
  constexpr int trials = 1000, rows = 24, runs = 20;
  for (const double share : {1.0 / 64, 1.0 / 256, 1.0 / 1024}) {
    int survived = 0;
    for (std::uint64_t kernel = 1; kernel <= trials; ++kernel) {
      bool wrong = false;
      for (std::uint64_t run = 0; run < runs && !wrong; ++run)
        for (const std::int64_t row : draw_rows(layout, rows, derive_seed(kernel, "rows", run)))
          wrong = wrong || wrong_on(std::to_string(row), share, kernel);
      survived += !wrong;
    }
    check_share(survived, trials, by_rows(share, rows, runs), fmt::format("rows, share {:.3g}", share));
  }
}

BOOST_AUTO_TEST_CASE(the_readme_states_these_chances) {
  std::ostringstream readme;
  readme << std::ifstream(kFolder + "evaluators/check/README.md").rdbuf();
  for (const int part : {2, 4, 8, 16, 64, 256}) {
    const double share = 1.0 / part;
    const auto line = fmt::format("| 1/{} | {:.1e} | {:.1e} | {:.1e} | {:.1e} | {:.1e} | {:.1e} |", part,
                                  by_shapes(share), by_foci(share), by_assignments(share),
                                  by_patterns(share, kListed, kDrawnConfirming.small + kFocused),
                                  by_rows(share, 24, 20), by_rows(share, 6, 20));
    BOOST_TEST((readme.str().find(line) != std::string::npos), "the README lacks the line " << line);
  }
}

BOOST_AUTO_TEST_SUITE_END()
