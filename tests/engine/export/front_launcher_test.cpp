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

BOOST_AUTO_TEST_CASE(a_shape_goes_to_the_nearest_of_its_kind_that_accepts_it) {
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
  const std::vector<DispatchEntry> entries{{shapes[0], 1}, {shapes[1], 0}, {shapes[2], 1}, {shapes[4], 1}};
  const Dispatch dispatch = dispatch_of(task, kernels);
  BOOST_TEST(dispatch.kinds == (std::vector<std::string>{"D", "causal", "scale", "window", "softcap"}),
             boost::test_tools::per_element());
  BOOST_TEST(dispatch.sizes == (std::vector<std::string>{"B", "H", "H_kv", "S_q", "S_kv", "D", "window"}),
             boost::test_tools::per_element());

  TemporaryFolder folder;
  for (const auto& [input, name] : {std::pair(&one, "1"), std::pair(&two, "2")}) {
    const auto header = cpu_launcher_header(*input, specialisations(*input));
    BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
    write_text(folder / (std::string("kernels/") + name + "/attention_forward.hpp"), *header);
  }
  const LauncherInput front{task, tiled, facts, shapes};
  const auto header = front_launcher_header(front, kernels, entries);
  BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
  write_text(folder / "attention_forward.hpp", *header);
  write_text(folder / "asks.cpp", R"(
#include <cstdio>
#include "attention_forward.hpp"
int main() {
  const cultivar_export::AttentionForward kernel(1);
  const auto ask = [&](std::int64_t S_q, std::int64_t S_kv, std::int64_t D, bool causal) {
    cultivar_export::AttentionForwardArguments arguments;
    arguments.B = 1, arguments.H = 8, arguments.S_q = S_q, arguments.S_kv = S_kv, arguments.D = D;
    arguments.causal = causal;
    std::printf("%s%s ", kernel.kernel_for(arguments), kernel.accepts(arguments) ? "" : "!");
  };
  ask(1, 4096, 64, false);     // as measured
  ask(4, 2048, 64, false);     // nearer to it than to the other of its kind
  ask(700, 1500, 64, false);   // nearer to the other one
  ask(1, 4096, 64, true);      // of another kind: one shape of that was measured
  ask(1, 4096, 72, false);     // of no measured kind; the kernel of the nearest shape was not built for it
  ask(1024, 1024, 80, false);  // for which none was built
}
)");
  const std::string program = (folder / "asks").string();
  const auto built = run_command({"g++", "-std=c++20", (folder / "asks.cpp").string(), "-o", program},
                                 {.folder = folder.path(), .environment = {}, .deadline_s = 120.0});
  BOOST_REQUIRE_MESSAGE(built.exit == 0, built.err);
  const auto asked = run_command({program});
  BOOST_TEST(asked.out == "2 2 1 2 1 1! ", asked.out);
}

BOOST_AUTO_TEST_CASE(another_table_is_another_identity) {
  const Variant tiled = load_variant(kTask / "seeds/tiled.cpp", task);
  const LauncherInput input{task, tiled, facts, task.workloads("cpu_quick")->workloads};
  const std::vector<FrontKernel> kernels{{"1", input}, {"2", input}};
  const Workload workload = input.workloads.front();
  BOOST_TEST(front_identity(kernels, {{workload, 0}}) != front_identity(kernels, {{workload, 1}}));
  BOOST_TEST(front_identity(kernels, {{workload, 0}}).size() == 12U);
}

BOOST_AUTO_TEST_SUITE_END()
