// SPDX-License-Identifier: Apache-2.0
#include "evaluators/profile/disassembly.hpp"

#include "support/cpu_kernels.hpp"

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(disassembly)

BOOST_AUTO_TEST_CASE(widths_registers_and_stack_accesses_are_counted) {
  const auto use = vector_use(
      "\n/tmp/k.so:     file format elf64-x86-64\n\nDisassembly of section .text:\n\n"
      "0000000000001000 <k>:\n"
      "    1000:\tvmovups (%rdi),%zmm0\n"
      "    1006:\tvfmadd231ps (%rsi),%zmm0,%zmm17\n"
      "    100c:\tvmovaps %ymm3,0x20(%rsp)\n"
      "    1012:\tlea    0x8(%rsp),%rax\n"
      "    1017:\tvaddss %xmm1,%xmm2,%xmm1\n"
      "    101b:\tret\n");
  BOOST_TEST(use.at("instructions") == 6.0);
  BOOST_TEST(use.at("widest_vector_bits") == 512.0);
  BOOST_TEST(use.at("vector_instructions") == 2.0);
  BOOST_TEST(use.at("vector_registers") == 5.0);  // 0, 17, 3, 1, 2
  BOOST_TEST(use.at("stack_accesses") == 1.0);
  BOOST_TEST(!use.contains("streamed_stores"));
  BOOST_TEST(vector_use("    1000:\tvmovntps %zmm0,(%rdi)\n    1006:\tvmovntdqa (%rdi),%zmm0\n"
                        "    100c:\tmovnti %rax,(%rdi)\n")
                 .at("streamed_stores") == 2.0);
  BOOST_TEST(vector_use("").empty());
  BOOST_TEST(vector_use("nothing of that kind\n").empty());
}

BOOST_AUTO_TEST_CASE(a_compiled_kernel_shows_the_vector_width_of_this_machine) {
  const Variant variant = cpu_test::by_hand(
      "extern \"C\" void k(float* y, const float* x) { for (int i = 0; i < 4096; ++i) y[i] += 2.0f * x[i]; }",
      {"k"});
  const auto use = vector_use_of(cpu_test::compiled(variant).path);
#ifdef __x86_64__
  BOOST_REQUIRE_MESSAGE(use, (use ? "" : use.error().message));
  BOOST_TEST(use->at("widest_vector_bits") >= 128.0);
  BOOST_TEST(use->at("widest_vector_bits") <= cpu_test::device().facts().at("vector_bits"));
  BOOST_TEST(use->at("vector_instructions") >= 2.0);
#else
  BOOST_TEST(!use.has_value());
#endif
  BOOST_TEST(!vector_use_of("/nowhere/none.so").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
