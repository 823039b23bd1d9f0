// SPDX-License-Identifier: Apache-2.0
// long: 300 s, engine/export
// Exports serve the common shapes of public models (export_coverage.py), each right against fp64, and at
// least nine in ten by the kernel and not by the fallback, though the kernels have some dimensions compiled
// in. Skipped without PyTorch.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/places.hpp"
#include "support/pytorch.hpp"

namespace utf = boost::unit_test;
using namespace cultivar::testing;

namespace {

constexpr const char* kSoftmax = R"(/*--- cultivar
name: softmax_fixed
task: softmax
target: cpu
about: "Columns compiled in."
requires: "dtype == f32"
specialize: [C]
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, thread, threads]
---*/
#include <algorithm>
#include <cmath>

extern "C" void softmax(const float* x, float* y, int R, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    const float* in = x + long(r) * C;
    float* out = y + long(r) * C;
    float most = in[0];
    for (int c = 1; c < C; ++c) most = std::max(most, in[c]);
    double sum = 0;
    for (int c = 0; c < C; ++c) sum += (out[c] = std::exp(in[c] - most));
    const float scale = float(1.0 / sum);
    for (int c = 0; c < C; ++c) out[c] *= scale;
  }
}
)";

struct Desk {
  TemporaryFolder folder;
  nlohmann::json covered(const std::string& task, const std::string& seed, const std::string& line) {
    copy_task(task, folder / task, line);
    if (task == "softmax") write_text(folder / task / "seeds/fixed.cpp", kSoftmax);
    write_text(folder / "search.yaml",
               "name: " + task + "_run\ntask: ./" + task + "\ntarget: cpu\nworkloads: cpu_quick\nseeds: [" +
                   seed +
                   "]\nbudget: {evaluations: 1, wall: 15m}\n"
                   "evaluation: {screening_samples: 3, max_samples: 4, max_seconds: 1s}\n");
    const auto search = cultivar_in(folder.path(), {"run", "search.yaml"});
    BOOST_REQUIRE_MESSAGE(search.exit == 0, search.err);
    const auto exported = cultivar_in(folder.path(), {"export", task + "_run", "--out", task + "_bundle"});
    BOOST_REQUIRE_MESSAGE(exported.exit == 0, exported.err);
    const std::string bundle = (folder / (task + "_bundle")).string();
    const auto made = run_command(
        {"sh", "-c", "cmake -S " + bundle + " -B " + bundle + "/build && cmake --build " + bundle + "/build"},
        {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
    BOOST_REQUIRE_MESSAGE(made.exit == 0, made.out + made.err);
    const auto said = run_command(
        {python_with_torch(), (source_folder() / "tests/e2e/export_coverage.py").string(), bundle},
        {.folder = "/",
         .environment = {{"CULTIVAR_EXPORT_CACHE", (folder / "cache").string()}},
         .deadline_s = 600.0});
    BOOST_TEST(said.exit == 0, said.out + said.err);
    const std::string text = said.out.substr(0, said.out.find_last_not_of('\n') + 1);
    return nlohmann::json::parse(text.substr(text.rfind('\n') + 1));
  }
  static void check(const nlohmann::json& told) {
    BOOST_TEST_MESSAGE(told.dump());
    BOOST_TEST(told["models"].get<int>() >= 20);
    BOOST_TEST(told["wrong"].get<int>() == 0);
    const int shapes = told["shapes"].get<int>(), fallback = told["ways"].value("fallback", 0);
    BOOST_TEST(told["ways"].value("built in", 0) + told["ways"].value("compiled", 0) + fallback == shapes);
    BOOST_TEST(fallback * 10 <= shapes);
    BOOST_TEST(told["ways"].value("compiled", 0) > 0);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(export_coverage, Desk, *utf::precondition(pytorch_is_here))

BOOST_AUTO_TEST_CASE(softmax_over_the_vocabularies_of_public_models) {
  check(covered("softmax", "fixed", "      - {R: 1024, C: 4096}\n"));
}

BOOST_AUTO_TEST_CASE(attention_with_the_heads_of_public_models) {
  check(covered("attention_forward", "vectorised", "      - {B: 1, H: 16, S_q: 1024, D: 64}\n"));
}

BOOST_AUTO_TEST_SUITE_END()
