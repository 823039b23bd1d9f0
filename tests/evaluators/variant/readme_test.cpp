// SPDX-License-Identifier: Apache-2.0
// The examples of evaluators/README.md are real: they lint, and the cpu one computes what it says.
#include <dlfcn.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "evaluators/variant/example.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> examples() {
  std::ifstream in(CULTIVAR_SOURCE_DIR "/evaluators/README.md");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string> result;
  const std::string opening = "```cpp\n";
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at + 1))
    result.push_back(text.substr(at + opening.size(), text.find("```\n", at + 1) - at - opening.size()));
  return result;
}

const Task& softmax() {
  static const Task task = load_task(CULTIVAR_SOURCE_DIR "/configs/tasks/softmax");
  return task;
}

Variant made(const std::string& source, Configuration configuration = {}) {
  auto variant = make_variant(source, softmax(), std::move(configuration));
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().message));
  return *std::move(variant);
}

using Kernel = void (*)(const float*, float*, int, int, int, int, int);

// Compiles as the README says and calls the kernel once a thread; gives the largest error against double
// precision.
double error_of(const Variant& v, int R, int C, int threads) {
  const fs::path stem = fs::temp_directory_path() / ("cultivar_readme_" + std::to_string(::getpid()));
  std::ofstream(stem.string() + ".cpp") << v.source;
  std::string command =
      "g++ -std=c++20 -O3 -march=native -ffp-contract=fast -fno-exceptions -fno-rtti -shared -fPIC "
      "-nostartfiles -Wall -Wextra -Werror";
  Workload w = softmax().workloads("cpu_quick")->workloads.at(0);
  w.values["R"] = R, w.values["C"] = C;
  for (const std::string& macro : macros(v, softmax(), w)) command += " -D" + macro;
  command += " -o " + stem.string() + ".so " + stem.string() + ".cpp";
  BOOST_REQUIRE(std::system(command.c_str()) == 0);
  void* library = dlopen((stem.string() + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  BOOST_REQUIRE(library != nullptr);
  const auto kernel = reinterpret_cast<Kernel>(dlsym(library, "softmax_rows"));
  BOOST_REQUIRE(kernel != nullptr);
  Facts facts = example::cpu_facts;
  facts["num_cores"] = threads;
  const auto plan = make_plan(v, softmax(), w, facts);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  BOOST_TEST(plan->kernels.at(0).args.size() == 7u);
  const int rows_each = static_cast<int>(plan->kernels.at(0).args.at(4).value);
  std::vector<float> x(static_cast<std::size_t>(R) * static_cast<std::size_t>(C)), y(x.size(), 7.0f);
  fill_tensor({}, 3, std::vector<std::int64_t>{R, C}, Dtype::f32, std::as_writable_bytes(std::span(x)));
  for (int t = 0; t < plan->kernels.at(0).launch.number("threads", 0); ++t)
    kernel(x.data(), y.data(), R, C, rows_each, t, threads);
  double worst = 0.0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(R); ++r) {
    double sum = 0.0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(C); ++c)
      sum += std::exp(double(x[r * static_cast<std::size_t>(C) + c]));
    for (std::size_t c = 0; c < static_cast<std::size_t>(C); ++c) {
      const std::size_t i = r * static_cast<std::size_t>(C) + c;
      worst = std::max(worst, std::abs(double(y[i]) - std::exp(double(x[i])) / sum));
    }
  }
  dlclose(library);
  fs::remove(stem.string() + ".cpp");
  fs::remove(stem.string() + ".so");
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(readme)

BOOST_AUTO_TEST_CASE(the_cpu_example_computes_softmax_for_every_knob) {
  const auto sources = examples();
  BOOST_REQUIRE(sources.size() == 2u);
  for (const char* deal : {"blocks", "turns"})
    for (const std::int64_t lanes : {8, 32}) {
      const Variant v = made(sources[0], {{"DEAL", std::string(deal)}, {"LANES", lanes}});
      BOOST_TEST(error_of(v, 13, 101, 3) < 1e-6);
      BOOST_TEST(error_of(v, 1, 1, 2) < 1e-6);
    }
}

BOOST_AUTO_TEST_CASE(the_examples_plan_on_every_workload_they_claim) {
  const auto sources = examples();
  BOOST_REQUIRE(sources.size() == 2u);
  for (const std::string& source : sources) {
    const Variant v = made(source);
    const Facts& facts = v.manifest.target == target_named("cpu") ? example::cpu_facts : example::cuda_facts;
    int claimed = 0;
    for (const WorkloadSet& set : softmax().workload_sets)
      for (const Workload& w : set.workloads) {
        if (!claims(v, softmax(), w)) continue;
        ++claimed;
        const auto plan = make_plan(v, softmax(), w, facts);
        BOOST_TEST(plan.has_value(), (plan ? "" : plan.error().message));
        const auto holds = check_constraints(v, softmax(), w, facts);
        BOOST_TEST(holds.has_value(), (holds ? "" : holds.error().message));
      }
    BOOST_TEST(claimed >= 3);
  }
}

BOOST_AUTO_TEST_CASE(the_readme_names_every_device_fact) {
  std::ifstream in(CULTIVAR_SOURCE_DIR "/evaluators/README.md");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  for (const Target target : targets())
    for (const auto& [name, about] : target->facts)
      BOOST_TEST(text.find("`" + name + "`") != std::string::npos, name);
}

BOOST_AUTO_TEST_SUITE_END()
