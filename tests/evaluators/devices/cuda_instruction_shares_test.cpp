// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/ptx_text.hpp"

#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;

namespace {

using Shares = std::map<std::string, double>;

// Of kernel `k` with this body, in a file with another kernel.
Shares shares_of(const std::string& body) {
  const std::string text =
      ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry other()\n{\n\tret;\n}\n"
      ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n" +
      body + "}\n";
  const auto ptx = read_ptx(text);
  BOOST_REQUIRE_MESSAGE(ptx, (ptx ? "" : ptx.error().message));
  return instruction_shares(*ptx, {"k"});
}

// The one kind that this instruction is of; "" if it is of none.
std::string kind_of(const std::string& instruction) {
  std::string kind;
  for (const auto& [name, share] : shares_of(instruction)) {
    if (share > 0.0) kind += (kind.empty() ? "" : " ") + name;
  }
  return kind;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_instruction_shares)

BOOST_AUTO_TEST_CASE(each_instruction_is_of_one_kind) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> kinds{
      {"tensor_share",
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2};",
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0;",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f2};"}},
      {"special_share",
       {"ex2.approx.ftz.f32 %f1, %f2;", "rsqrt.approx.f32 %f1, %f2;", "tanh.approx.bf16x2 %r1, %r2;",
        "div.rn.f32 %f1, %f2, %f3;"}},
      {"float_share",
       {"fma.rn.f32 %f1, %f2, %f3, %f4;", "add.f16x2 %r1, %r2, %r3;", "mul.bf16 %h1, %h2, %h3;"}},
      {"convert_share", {"cvt.rn.bf16x2.f32 %r1, %f1, %f2;", "cvt.s64.s32 %rd1, %r1;"}},
      {"integer_share",
       {"add.s32 %r1, %r2, %r3;", "mad.lo.s32 %r1, %r2, %r3, %r4;", "setp.lt.f32 %p1, %f1, %f2;",
        "max.f32 %f1, %f2, %f3;", "shl.b32 %r1, %r2, 3;", "lop3.b32 %r1, %r2, %r3, %r4, 0x6a;"}},
      {"global_share",
       {"ld.global.nc.v4.u32 {%r1, %r2}, [%rd1];", "st.u32 [%rd1], %r1;", "red.global.add.u32 [%rd1], %r1;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16;",
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile [%r1], [%rd2, {%rd1}], [%r3];"}},
      {"shared_share",
       {"ld.shared.v4.f32 {%f1, %f2}, [%r1];", "st.shared::cluster.u32 [%r1], %r2;",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r3];", "atom.shared.add.u32 %r1, [%r2], 1;"}},
      {"",
       {"bar.sync 0;", "shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;", "ld.local.u32 %r1, [%rd1];",
        "cp.async.commit_group;", "cp.async.bulk.wait_group 0;", "wgmma.wait_group.sync.aligned 0;",
        "mov.u32 %r1, %tid.x;", "ld.param.u64 %rd1, [k_param_0];", "cvta.to.global.u64 %rd2, %rd1;"}}};
  for (const auto& [kind, instructions] : kinds)
    for (const std::string& instruction : instructions)
      BOOST_TEST(kind_of(instruction + "\n") == kind, instruction);
}

BOOST_AUTO_TEST_CASE(shares_are_of_what_ptxas_keeps_and_one_instruction_is_never_nothing) {
  std::string body = "ex2.approx.f32 %f1, %f2;\n";
  for (int i = 0; i < 299; ++i) body += "fma.rn.f32 %f1, %f2, %f3, %f4;\nmov.f32 %f2, %f1;\n";
  Shares shares = shares_of(body);
  BOOST_TEST(shares["special_share"] == 1.0);
  BOOST_TEST(shares["float_share"] == 100.0);  // 99.7
  BOOST_TEST(shares["tensor_share"] == 0.0);
  BOOST_TEST(shares_of("").empty());
}

BOOST_AUTO_TEST_CASE(real_kernels_show_what_they_are_made_of, *needs_nvrtc()) {
  Shares tiles = compiled(kernel("wgmma_tma.cu")).resources.shares;
  BOOST_TEST(tiles["tensor_share"] >= 1.0);
  BOOST_TEST(tiles["global_share"] >= 1.0);
  Shares mma = compiled(kernel("mma_sync.cu")).resources.shares;
  BOOST_TEST(mma["tensor_share"] >= 3.0);
  BOOST_TEST(mma["shared_share"] >= 5.0);
  BOOST_TEST(mma["special_share"] == 0.0);
  Shares softmax = compiled(kernel("honest_softmax.cu")).resources.shares;
  BOOST_TEST(softmax["tensor_share"] == 0.0);
  BOOST_TEST(softmax["special_share"] >= 1.0);
  BOOST_TEST(softmax["float_share"] > softmax["special_share"]);
  double all = 0.0;
  for (const auto& [kind, share] : softmax) all += share;
  BOOST_TEST(all <= 100.0 + 7.0);  // each is rounded up
  for (const auto& [kind, share] : softmax) BOOST_TEST_MESSAGE(kind << " " << share);
}

BOOST_AUTO_TEST_CASE(shares_come_from_the_cache_too, *needs_nvrtc()) {
  const FreshCache cache("cuda-shares");
  CudaCompiler fresh(options(cache.folder));
  const Binary first = compiled(kernel("honest_softmax.cu"), fresh);
  const Binary second = compiled(kernel("honest_softmax.cu"), fresh);
  BOOST_TEST(fresh.compilations() == 1u);
  BOOST_TEST(!first.resources.shares.empty());
  BOOST_TEST((first.resources.shares == second.resources.shares));
}

BOOST_AUTO_TEST_SUITE_END()
