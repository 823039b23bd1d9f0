// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cpp/check_build.hpp"

#include "evaluators/coverage/coverage.hpp"
#include "evaluators/judge/check_build_runs.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cpu_test;

namespace {

const std::string branches = R"(extern "C" void k(float* y, int n) {
  float lanes[4];
  for (int i = 0; i < 4; ++i) lanes[i] = 1.0f;
  float start = 0.0f;
  if (n == 7)
    start = 3.0f;
  y[0] = start + lanes[n & 7];
}
)";

Plan plan_of(int n) {
  Plan plan;
  plan.buffers.push_back({"y", 64, PlannedBuffer::Use::output, false, 4});
  plan.kernels.push_back(kernel("k", 1, {buffer(0), scalar(Dtype::i32, n)}));
  return plan;
}

Binary check_build() {
  const Variant variant = by_hand(branches, {"k"});
  const auto build = compiler().compile_check_build(variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(build, (build ? "" : build.error().text()));
  return *build;
}

// The counters after one run with this n.
std::vector<std::byte> counters_after(const Binary& build, int n) {
  auto session = device().open(build, check_plan(plan_of(n), build), 20.0);
  BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
  std::vector<std::vector<std::byte>> outputs(2);
  const auto ran = (*session)->run(RunInputs(), outputs, {});
  BOOST_REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().detail));
  return outputs[1];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_check_build)

BOOST_AUTO_TEST_CASE(a_constant_that_is_assigned_in_a_branch_is_a_block) {
  const Binary build = check_build();
  BlocksRun blocks;
  blocks.expect({}, build.blocks);
  blocks.note({}, counters_after(build, 2));
  const std::vector<CodeBlock> left = blocks.unreached({});
  BOOST_REQUIRE(left.size() == 1u);
  BOOST_TEST(left[0].file == "variant.cpp");
  BOOST_TEST(left[0].first_line == 6);
  BOOST_TEST(left[0].last_line == 6);
  blocks.note({}, counters_after(build, 7));
  BOOST_TEST(blocks.complete());
}

BOOST_AUTO_TEST_CASE(an_index_outside_an_array_is_found_with_its_line) {
  const Binary build = check_build();
  BOOST_TEST(!violation_in(counters_after(build, 3), build.blocks));
  const auto found = violation_in(counters_after(build, 4), build.blocks);
  BOOST_REQUIRE(found);
  BOOST_TEST(found->text() == "line 7: the index 4 is outside 'float [4]'");
}

// Two threads, each of which ends before the other begins if it is fast enough: what they share is found all
// the same.
std::string race_of(const std::string& body) {
  const Variant variant =
      by_hand("extern \"C\" void k(float* y, int* ticket, float* scratch, int thread, int threads) {\n" +
                  body + "\n}\n",
              {"k"});
  const auto build = compiler().compile_check_build(variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(build, (build ? "" : build.error().text()));
  Plan plan;
  plan.buffers.push_back({"y", 64, PlannedBuffer::Use::output, false, 4});
  plan.buffers.push_back({"ticket", 64, PlannedBuffer::Use::workspace, true, 4});
  plan.buffers.push_back({"scratch", 64, PlannedBuffer::Use::workspace, false, 4});
  for (int launch = 0; launch < 2; ++launch)
    plan.kernels.push_back(kernel("k", 2,
                                  {buffer(0),
                                   buffer(1),
                                   buffer(2),
                                   {PlannedArgument::Kind::thread, 0, Dtype::i32, 0.0},
                                   {PlannedArgument::Kind::threads, 0, Dtype::i32, 0.0}}));
  auto session = device().open(*build, check_plan(plan, *build), 20.0);
  BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
  std::vector<std::vector<std::byte>> outputs(2);
  const auto ran = (*session)->run(RunInputs(), outputs, {});
  BOOST_REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().detail));
  const auto found = violation_in(outputs[1], build->blocks);
  return found ? found->text() : "";
}

BOOST_AUTO_TEST_CASE(memory_that_threads_share_is_found_with_its_line) {
  const std::string words =
      ": two threads of one launch use the same memory without synchronization, and one writes";
  BOOST_TEST(race_of("y[0] = 1.0f;") == "line 2 to 3" + words);
  BOOST_TEST(race_of("y[thread] = 1.0f;\nif (thread == 0) y[4] = y[1];").ends_with(words));
  BOOST_TEST(race_of("static float kept[4];\nkept[0] += thread;\ny[thread] = kept[0];").find("line 3") == 0u);
}

BOOST_AUTO_TEST_CASE(threads_may_read_the_same_and_write_side_by_side) {
  BOOST_TEST(race_of("y[thread] = scratch[0] + scratch[1];") == "");
  BOOST_TEST(race_of("for (int i = thread; i < 16; i += threads) y[i] = 1.0f;") == "");
  BOOST_TEST(race_of("reinterpret_cast<short*>(y)[thread] = 1;") == "");
  BOOST_TEST(race_of("reinterpret_cast<char*>(y)[thread] = 1;") == "");
  BOOST_TEST(
      race_of("for (int i; (i = __atomic_fetch_add(ticket, 1, __ATOMIC_RELAXED)) < 16;) y[i] = 1.0f;") == "");
  // These wait for each other.
  BOOST_TEST(race_of("if (thread == 0) y[0] = 1.0f;\n__atomic_fetch_add(ticket, 1, __ATOMIC_ACQ_REL);\n"
                     "y[2 + thread] = y[0];") == "");
  BOOST_TEST(
      race_of("if (thread == 0) y[0] = 1.0f;\n__atomic_store_n(ticket + 1 + thread, 1, __ATOMIC_RELEASE);\n"
              "y[0] = 1.0f;") == "");
}

BOOST_AUTO_TEST_CASE(a_check_build_comes_from_the_cache_with_its_blocks) {
  const Binary first = check_build(), second = check_build();
  BOOST_TEST(first.path == second.path);
  BOOST_TEST(first.blocks.size() == second.blocks.size());
  BOOST_TEST(first.counters == second.counters);
  BOOST_TEST(first.counters > violation_bytes);
}

BOOST_AUTO_TEST_CASE(what_only_compiles_with_optimization_has_a_check_build) {
  const Variant variant = by_hand(R"(#include <immintrin.h>
static inline __m128 turned(__m128 x, const int how) { return _mm_shuffle_ps(x, x, how); }
extern "C" void k(float* y, int n) { _mm_storeu_ps(y, turned(_mm_set1_ps(float(n)), 0x1b)); }
)",
                                  {"k"});
  const auto build = compiler().compile_check_build(variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(build, (build ? "" : build.error().text()));
  BOOST_TEST(!build->blocks.empty());
}

BOOST_AUTO_TEST_CASE(blocks_are_read_from_a_disassembly) {
  const std::vector<CodeBlock> blocks = blocks_in(
      "0000000000001020 <k>:\n"
      "k():\n"
      "/src/variant.cpp:4\n"
      "    1020:\tpush   %rbp\n"
      "    1021:\tcall   13ca <__sanitizer_cov_trace_pc>\n"
      "    1026:\tmov    %edi,%eax\n"
      "/usr/lib/gcc/avxintrin.h:100\n"
      " (inlined by) /src/tile.hpp:9 (discriminator 3)\n"
      "    102a:\tcall   13ca <__sanitizer_cov_trace_pc>\n"
      "    102f:\tret\n"
      "/src/variant.cpp:77\n"
      "    1030:\tnop\n"
      "/usr/lib/gcc/avxintrin.h:100\n"
      "    1031:\tcall   13ca <__sanitizer_cov_trace_pc>\n"
      "    1036:\tret\n",
      {"variant.cpp", "tile.hpp"});
  BOOST_REQUIRE(blocks.size() == 2u);  // the last one is of no file of the kernel's
  BOOST_TEST(blocks[0].counter == 0x1026u);
  BOOST_TEST(blocks[0].first_line == 4);
  BOOST_TEST(blocks[1].counter == 0x102fu);
  BOOST_TEST(blocks[1].file == "tile.hpp");
  BOOST_TEST(blocks[1].first_line == 9);
  BOOST_TEST(blocks[1].last_line == 9);
}

BOOST_AUTO_TEST_SUITE_END()
