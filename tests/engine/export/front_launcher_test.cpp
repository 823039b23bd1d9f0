// SPDX-License-Identifier: Apache-2.0
// The entry of several kernels: which of them a shape goes to, asked of the generated header.
#include "engine/export/front_launcher.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/devices/cpu/launcher.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kTask = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/attention_forward";

struct Shapes {
  Task task = load_task(kTask);
  Facts facts{{"num_cores", 2.0}, {"l1_bytes", 32768.0}, {"l2_bytes", 1048576.0}, {"l3_bytes", 33554432.0}};

  Workload shape(std::string name, double S_q, double S_kv, double D, bool causal,
                 double window = 0.0) const {
    Workload workload = task.workloads("cpu_quick")->workloads.front();
    workload.name = std::move(name);
    workload.values["S_q"] = S_q;
    workload.values["S_kv"] = S_kv;
    workload.values["D"] = D;
    workload.values["causal"] = causal;
    workload.values["window"] = window;
    workload.values["scale"] = 0.125;
    return workload;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(front_launcher, Shapes)

BOOST_AUTO_TEST_CASE(a_shape_goes_to_the_first_kernel_of_its_rule_that_accepts_it) {
  // `tiled` serves every head size here, `vectorised` multiples of 16.
  const Variant tiled = load_variant(kTask / "seeds/tiled.cpp", task);
  const Variant vectorised = load_variant(kTask / "seeds/vectorised.cpp", task);
  const std::vector<Workload> shapes{shape("decode", 1, 4096, 64, false),
                                     shape("prefill", 1024, 1024, 64, false),
                                     shape("masked", 1024, 1024, 64, true), shape("odd", 64, 64, 72, false),
                                     shape("wide", 1024, 1024, 128, false)};
  std::vector<Workload> even = shapes;
  even.erase(even.begin() + 3);
  const LauncherInput one{task, tiled, facts, shapes, "kernels/1/"},
      two{task, vectorised, facts, even, "kernels/2/"};
  const std::vector<FrontKernel> kernels{{"1", one}, {"2", two}};
  // S_q <= 16, or else a mask, or else more heads than elements of one: the second kernel.
  FrontDispatch dispatch{.table = {}, .learnt = "4 shapes", .domain = {{"S_q", 1, 2048}}};
  dispatch.table.nodes = {{.test = {{{"S_q"}}, 16.0}, .holds = 1, .fails = 2},
                          {.order = {1, 0}},
                          {.test = {{{"causal"}}, 0.0}, .holds = 3, .fails = 4},
                          {.test = {{{"B", "H"}, "D"}, 1.0}, .holds = 5, .fails = 6},
                          {.order = {1, 0}},
                          {.order = {0, 1}},
                          {.order = {1, 0}}};

  TemporaryFolder folder;
  for (const auto& [input, name] : {std::pair(&one, "1"), std::pair(&two, "2")}) {
    const auto header = cpu_launcher_header(*input, specialisations(*input));
    BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
    write_text(folder / (std::string("kernels/") + name + "/attention_forward.hpp"), *header);
  }
  const LauncherInput front{task, tiled, facts, shapes};
  const std::vector<Specialisation> served = specialisations(one);
  const auto parts = cpu_parts({one, served, {}, {}});
  BOOST_REQUIRE_MESSAGE(parts, (parts ? "" : parts.error().message));
  const auto header = front_launcher_header(front, kernels, dispatch, parts->front);
  BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
  write_text(folder / "attention_forward.hpp", *header);
  write_text(folder / "asks.cpp", R"(
#include <cstdio>
#include "attention_forward.hpp"
int main() {
  const cultivar_export::AttentionForward kernel(1);
  const auto ask = [&](std::int64_t B, std::int64_t S_q, std::int64_t D, bool causal) {
    cultivar_export::AttentionForwardArguments arguments;
    arguments.B = B, arguments.H = 8, arguments.S_q = S_q, arguments.D = D;
    arguments.causal = causal;
    std::printf("%s%s (%s, %s) ", kernel.kernel_for(arguments), kernel.accepts(arguments) ? "" : "!", kernel.rule_for(arguments),
                kernel.is_inside(arguments) ? "inside" : "outside");
  };
  ask(1, 16, 64, false);
  ask(1, 17, 64, false);
  ask(8, 17, 64, false);
  ask(9, 17, 64, false);
  ask(1, 4096, 64, true);
  ask(1, 1, 72, false);      // the first kernel of the rule was not built for it
  ask(1, 1024, 80, false);   // no kernel was
}
)");
  const std::string program = (folder / "asks").string();
  const auto built = run_command({"g++", "-std=c++20", (folder / "asks.cpp").string(), "-o", program},
                                 {.folder = folder.path(), .environment = {}, .deadline_s = 120.0});
  BOOST_REQUIRE_MESSAGE(built.exit == 0, built.err);
  const auto asked = run_command({program});
  const std::string decode = "(S_q <= 16, inside) ", wide = "S_q > 16 and causal <= 0 and B * H ";
  BOOST_TEST(asked.out == "2 " + decode + "1 (" + wide + "<= 1 * D, inside) 1 (" + wide +
                              "<= 1 * D, inside) 2 (" + wide +
                              "> 1 * D, inside) 2 (S_q > 16 and causal > 0, outside) 1 " + decode + "1! (" +
                              wide + "<= 1 * D, inside) ",
             asked.out);
}

BOOST_AUTO_TEST_CASE(another_table_is_another_identity) {
  const Variant tiled = load_variant(kTask / "seeds/tiled.cpp", task);
  const LauncherInput input{task, tiled, facts, task.workloads("cpu_quick")->workloads};
  const std::vector<FrontKernel> kernels{{"1", input}, {"2", input}};
  DispatchTable one, other;
  one.nodes = {{.order = {0, 1}}};
  other.nodes = {{.order = {1, 0}}};
  BOOST_TEST(front_identity(kernels, one) != front_identity(kernels, other));
  BOOST_TEST(front_identity(kernels, one).size() == 12U);
}

BOOST_AUTO_TEST_SUITE_END()
