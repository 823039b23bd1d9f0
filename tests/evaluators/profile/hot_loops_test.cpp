// SPDX-License-Identifier: Apache-2.0
#include "evaluators/profile/disassembly.hpp"

#include "support/cpu_kernels.hpp"

using namespace cultivar;

namespace {

// As objdump -d -l --inlines writes it: a loop over rows around a loop with an intrinsic and one with a call.
constexpr const char* kListing =
    "0000000000001020 <softmax>:\n"
    "softmax():\n"
    "/src/variant.cpp:8\n"
    "    1020:\txor    %eax,%eax\n"
    "/src/variant.cpp:9\n"
    "    1024:\txor    %edx,%edx\n"
    "_Z13_mm256_max_psDv8_fS_():\n"
    "/usr/lib/gcc/x86_64-linux-gnu/12/include/avxintrin.h:296 (discriminator 3)\n"
    "inlined by /src/variant.cpp:12 (softmax)\n"
    "    10b0:\tvmaxps (%rax),%ymm0,%ymm0\n"
    "softmax():\n"
    "/src/variant.cpp:11 (discriminator 3)\n"
    "    10b4:\tadd    $0x20,%rax\n"
    "    10b8:\tcmp    %rax,%rdx\n"
    "    10bb:\tjne    10b0 <softmax+0x90>\n"
    "/src/variant.cpp:15\n"
    "    1150:\tvmovss -0x4(%r13),%xmm0\n"
    "_ZSt3expf():\n"
    "/usr/include/c++/12/cmath:223\n"
    "inlined by /src/variant.cpp:15 (softmax)\n"
    "    1163:\tcall   1010 <expf@plt>\n"
    "/src/tile.hpp:3\n"
    "inlined by /src/variant.cpp:16 (softmax)\n"
    "    116d:\tvmovss %xmm0,-0x4(%r14)\n"
    "/src/variant.cpp:14\n"
    "    117b:\tjne    1150 <softmax+0x130>\n"
    "/src/variant.cpp:9\n"
    "    1190:\tjne    1024 <softmax+0x4>\n"
    "    1199:\tret\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(hot_loops)

BOOST_AUTO_TEST_CASE(a_loop_that_calls_a_function_with_loops_is_not_the_innermost) {
  const auto loops = cultivar::hot_loops(
      "0000000000001000 <_ZL6row_ofPKf>:\n"
      "    1000:\tvmovups (%rdi),%zmm0\n"
      "    1004:\tvfmadd231ps %zmm0,%zmm1,%zmm2\n"
      "    1008:\tjne    1000 <_ZL6row_ofPKf>\n"
      "0000000000002000 <softmax>:\n"
      "    2000:\tinc    %r14\n"
      "    2004:\tcall   1000 <_ZL6row_ofPKf>\n"
      "    2008:\tjne    2000 <softmax>\n",
      {"variant.cpp"});
  BOOST_TEST_REQUIRE(loops.size() == 1U);
  BOOST_TEST(loops[0].function == "_ZL6row_ofPKf");
  BOOST_TEST(loops[0].depth == 1);
  BOOST_TEST(loops[0].fused == 1);
}

BOOST_AUTO_TEST_CASE(unrolled_multiply_adds_around_a_loop_that_prepares_a_mask_are_seen) {
  const auto loops = cultivar::hot_loops(
      "0000000000001000 <conv>:\n"
      "    1000:\tvmovups (%rdi),%zmm0\n"
      "    1004:\tmov    %eax,(%rsp)\n"
      "    1008:\tjne    1004 <conv>\n"
      "    100c:\tvfmadd231ps %zmm0,%zmm1,%zmm2\n"
      "    1010:\tvfmadd231ps %zmm3,%zmm1,%zmm2\n"
      "    1014:\tvmovntps %zmm2,(%rsi)\n"
      "    1018:\tjne    1000 <conv>\n",
      {"variant.cpp"});
  BOOST_TEST_REQUIRE(loops.size() == 2U);
  BOOST_TEST(loops[0].fused == 2);  // comes first
  BOOST_TEST(loops[0].instructions == 5);
  BOOST_TEST(loops[1].instructions == 2);
}

BOOST_AUTO_TEST_CASE(innermost_loops_have_their_lines_their_mix_and_their_calls) {
  const auto loops = cultivar::hot_loops(kListing, {"variant.cpp", "tile.hpp"});
  BOOST_TEST_REQUIRE(loops.size() == 2U);
  const HotLoop &call = loops[0], &vector = loops[1];  // the one that calls comes first
  BOOST_TEST((call.calls == std::vector<std::string>{"expf"}));
  BOOST_TEST(call.function == "softmax");
  BOOST_TEST(call.first_line == 14);
  BOOST_TEST(call.last_line == 15);
  BOOST_TEST(call.instructions == 4);
  BOOST_TEST(call.scalars == 2);
  BOOST_TEST(call.vectors == 0);
  BOOST_TEST(call.loads == 1);
  BOOST_TEST(call.stores == 1);
  BOOST_TEST(call.code.at(2).line == 3);  // in the header, which is the variant's own
  BOOST_TEST(vector.first_line == 11);
  BOOST_TEST(vector.last_line == 12);  // of the intrinsic: where it was inlined
  BOOST_TEST(vector.vectors == 1);
  BOOST_TEST(vector.widest_bits == 256);
  BOOST_TEST(vector.loads == 1);
  BOOST_TEST(vector.stores == 0);
  BOOST_TEST(vector.code.front().text == "vmaxps (%rax),%ymm0,%ymm0");
  BOOST_TEST(words_of(call) ==
             "lines 14 to 15 (softmax): 4 instructions, none on vectors, 2 on single floats, 1 "
             "loads, 1 stores; calls expf");
  BOOST_TEST(cultivar::hot_loops(kListing, {"variant.cpp"}, 1).size() == 1U);
  BOOST_TEST(cultivar::hot_loops("no code", {"variant.cpp"}).empty());
}

BOOST_AUTO_TEST_CASE(a_compiled_kernel_shows_the_loop_that_calls_exp) {
#ifdef __x86_64__
  const Variant variant = cpu_test::by_hand(
      "#include <cmath>\n"
      "extern \"C\" void k(float* y, const float* x) {\n"
      "  for (int r = 0; r < 64; ++r)\n"
      "    for (int i = 0; i < 4096; ++i)\n"
      "      y[r * 4096 + i] = std::exp(x[i]);\n"
      "}\n",
      {"k"});
  const auto loops = hot_loops_of(cpu_test::compiled(variant).path, variant.source);
  BOOST_REQUIRE_MESSAGE(loops, (loops ? "" : loops.error().message));
  BOOST_TEST_REQUIRE(!loops->empty());
  const HotLoop& first = loops->front();
  BOOST_TEST((first.calls == std::vector<std::string>{"expf"}));
  BOOST_TEST(first.first_line >= 4);
  BOOST_TEST(first.last_line == 5);
  BOOST_TEST(!hot_loops_of("/nowhere/none.so", "").has_value());
#endif
}

BOOST_AUTO_TEST_CASE(the_loop_that_multiplies_comes_before_a_longer_one_that_copies) {
#ifdef __x86_64__
  const Variant variant = cpu_test::by_hand(
      "extern \"C\" void k(float* y, const float* x, float* t, int n) {\n"
      "  for (int i = 0; i < n; ++i) {\n"
      "    const int a = i * 7 % n, b = i * 5 % n, c = i * 3 % n;\n"
      "    t[i] = x[a], t[n + i] = x[b], t[2 * n + i] = x[c], t[3 * n + i] = x[i] + x[a];\n"
      "  }\n"
      "  for (int r = 0; r < n; ++r)\n"
      "    for (int c = 0; c < n; ++c)\n"
      "      for (int i = 0; i < n; ++i)\n"
      "        y[r * n + i] += t[r * n + c] * x[c * n + i];\n"
      "}\n",
      {"k"});
  const auto loops = hot_loops_of(cpu_test::compiled(variant).path, variant.source);
  BOOST_REQUIRE_MESSAGE(loops, (loops ? "" : loops.error().message));
  BOOST_TEST_REQUIRE(loops->size() > 1U);
  const HotLoop& first = loops->front();
  BOOST_TEST(first.last_line == 9);
  BOOST_TEST(first.depth == 2);
  BOOST_TEST(first.fused > 0);
  BOOST_TEST(words_of(first).find(" multiply-adds") != std::string::npos, words_of(first));
#endif
}

BOOST_AUTO_TEST_CASE(loads_and_stores_alone_are_timed_on_this_machine) {
  constexpr double kBytes = 96e6;
  Traffic traffic = cpu_test::device().traffic(kBytes, kBytes);
  // A disturbed run is not told: on a busy machine another attempt.
  const auto timed = [&] {
    return traffic.loads_us > 0.0 && traffic.stores_us > 0.0 && traffic.both_us > 0.0;
  };
  for (int i = 0; i < 5 && !timed(); ++i) traffic = cpu_test::device().traffic(kBytes, kBytes);
  BOOST_TEST(traffic.read_bytes == kBytes);
  BOOST_TEST(cpu_test::device().traffic(4096.0, 4096.0).loads_us == 0.0);  // too short to be timed
  BOOST_TEST(traffic.loads_us > 0.0);
  BOOST_TEST(traffic.stores_us > 0.0);
  BOOST_TEST(traffic.both_us > 0.0);
  // Bounds that hold at any load: between 0.1 and 4000 GB/s.
  for (const double us : {traffic.loads_us, traffic.stores_us, traffic.both_us}) {
    BOOST_TEST(kBytes / us * 1e-3 > 0.1);
    BOOST_TEST(kBytes / us * 1e-3 < 4000.0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
