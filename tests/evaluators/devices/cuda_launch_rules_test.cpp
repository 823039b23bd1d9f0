// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/launch_rules.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/devices/cuda/code/known_devices.hpp"

using namespace cultivar;

namespace {

const Facts& h100() {
  return known_device("h100")->facts;
}

CubinKernel code() {
  CubinKernel k;
  k.name = "k";
  k.registers = 168;
  k.shared_bytes = 64;
  k.parameters = {{0, 128}, {128, 8}, {136, 4}};
  k.threads_at_most = {{384, 1, 1}};
  return k;
}

PlannedArgument argument(PlannedArgument::Kind kind, Dtype type = Dtype::i32) {
  PlannedArgument a;
  a.kind = kind;
  a.type = type;
  return a;
}

PlannedKernel launch() {
  PlannedKernel k;
  k.kernel = "k";
  k.args = {argument(PlannedArgument::Kind::tensor_map), argument(PlannedArgument::Kind::buffer),
            argument(PlannedArgument::Kind::scalar, Dtype::f32)};
  k.launch.set("grid", {132, 1, 1});
  k.launch.set("block", {384, 1, 1});
  k.launch.set("cluster", {2, 1, 1});
  k.launch.set("shared", {232448 - 64});
  return k;
}

template <class Change>
void refuses(Change change, const std::string& words) {
  CubinKernel c = code();
  PlannedKernel p = launch();
  change(c, p);
  const auto done = check_launch(c, p, h100());
  BOOST_REQUIRE_MESSAGE(!done, words + " was not refused");
  BOOST_TEST(done.error().message.find(words) != std::string::npos, done.error().message);
  BOOST_TEST(done.error().message.find("kernel 'k'") != std::string::npos, done.error().message);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_launch_rules)

BOOST_AUTO_TEST_CASE(a_launch_at_every_limit_passes) {
  const auto done = check_launch(code(), launch(), h100());
  BOOST_TEST(done.has_value(), (done ? "" : done.error().message));
}

BOOST_AUTO_TEST_CASE(what_the_code_and_the_plan_do_not_agree_on_is_refused) {
  refuses([](auto&, auto& p) { p.args.pop_back(); }, "the kernel has 3 parameters, but the manifest gives 2");
  refuses([](auto&, auto& p) { p.args[2].type = Dtype::f64; },
          "parameter 3 has 4 bytes, but its argument has 8");
  refuses([](auto&, auto& p) { p.args[0].kind = PlannedArgument::Kind::buffer; },
          "parameter 1 has 128 bytes, but its argument has 8");
  refuses([](auto&, auto& p) { p.launch.set("block", {512, 1, 1}); }, "__launch_bounds__ allows at most 384");
  refuses([](auto& c, auto&) { c.threads_exactly = {{128, 1, 1}}; }, "compiled for exactly [128, 1, 1]");
  refuses([](auto& c, auto&) { c.cluster_exactly = {{4, 1, 1}}; }, "__cluster_dims__ is [4, 1, 1]");
}

BOOST_AUTO_TEST_CASE(limits_of_the_card_are_kept) {
  refuses([](auto&, auto& p) { p.launch.set("shared", {232448 - 64 + 1}); },
          "232449 bytes of shared memory (232385 dynamic, 64 static)");
  refuses(
      [](auto& c, auto& p) {
        c.threads_at_most.reset(), p.launch.set("block", {512, 1, 1});
      },
      "168 registers for each of 512 threads need 86016");
  refuses([](auto& c, auto&) { c.stack_bytes = 500000; }, "a stack of 500000 bytes per thread");
  refuses([](auto&, auto& p) { p.launch.set("block", {1025, 1, 1}); }, "block[0] is 1025");
  refuses([](auto&, auto& p) { p.launch.set("block", {32, 1, 65}); }, "block[2] is 65; it must be 1 to 64");
  refuses(
      [](auto& c, auto& p) {
        c.threads_at_most.reset(), p.launch.set("block", {64, 32, 1});
      },
      "the block has 2048 threads");
  refuses([](auto&, auto& p) { p.launch.set("grid", {132, 70000, 1}); }, "grid[1] is 70000");
  refuses([](auto&, auto& p) { p.launch.set("grid", {132, 1, 0}); }, "grid[2] is 0");
  refuses(
      [](auto&, auto& p) {
        p.launch.set("grid", {133, 1, 1});
      },
      "grid[0] is 133, which is not a multiple of the cluster's 2");
  refuses(
      [](auto&, auto& p) {
        p.launch.set("grid", {136, 1, 1}), p.launch.set("cluster", {17, 1, 1});
      },
      "the cluster has 17 blocks; the limit is 16");
  refuses(
      [](auto&, auto& p) {
        p.launch.set("grid", {32, 2, 1}), p.launch.set("cluster", {16, 2, 1});
      },
      "the cluster has 32 blocks");
  CubinKernel c = code();
  Facts old = h100();
  old["compute_capability"] = 80;
  BOOST_TEST(!check_launch(c, launch(), old).has_value());
}

BOOST_AUTO_TEST_CASE(clusters_of_more_than_eight_blocks_are_not_portable) {
  PlannedKernel p = launch();
  BOOST_TEST(cluster_is_portable(p));
  p.launch.set("cluster", {16, 1, 1});
  BOOST_TEST(!cluster_is_portable(p));
}

BOOST_AUTO_TEST_CASE(every_kernel_of_a_plan_must_be_in_the_code) {
  Cubin cubin;
  cubin.kernels = {code()};
  Plan plan;
  plan.kernels = {launch()};
  BOOST_TEST(check_launches(cubin, plan, h100()).has_value());
  plan.kernels.push_back(launch());
  plan.kernels.back().kernel = "other";
  const auto done = check_launches(cubin, plan, h100());
  BOOST_REQUIRE(!done.has_value());
  BOOST_TEST(done.error().message.find("kernel 'other' is not in the machine code") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
