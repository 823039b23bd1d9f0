// SPDX-License-Identifier: Apache-2.0
// also without bubblewrap
// long: 30 s, evaluators/devices/opencl, evaluators/languages/opencl_c
// Counters in what PoCL keeps of a kernel, and which blocks a run shows.
#include "evaluators/languages/opencl_c/check_build.hpp"

#include <numeric>
#include <random>
#include <set>

#include "evaluators/coverage/coverage.hpp"
#include "evaluators/judge/check_build_runs.hpp"
#include "support/contains.hpp"
#include "support/opencl_kernels.hpp"

using namespace cultivar;
using namespace cultivar::opencl_test;
using cultivar::testing::contains;

namespace {

constexpr const char* kIr = R"(define dso_local void @f(ptr noundef %a) #0 !dbg !5 {
entry:
  %a.addr = alloca ptr, align 8
  call void @llvm.dbg.declare(metadata ptr %a.addr, metadata !9, metadata !DIExpression()), !dbg !11
  %0 = load ptr, ptr %a.addr, align 8, !dbg !10
  br i1 %c, label %then, label %end, !dbg !10

then:                                             ; preds = %entry
  store i32 0, ptr %0, align 4, !dbg !12
  br label %end, !dbg !13

end:                                              ; preds = %then, %entry
  %v = phi i32 [ 0, %entry ], [ 1, %then ]
  %w = call i32 @g(i32 %v), !dbg !14
  ret void
}
define internal i32 @g(i32 %v) {
entry:
  ret i32 %v
}
define internal i32 @strange(i32 %v) !dbg !6 {
entry:
  ret i32 %v, !dbg !15
}
!1 = !DIFile(filename: "/tmp/tempfile_ab.cl", directory: "/x")
!2 = !DIFile(filename: "/work/own.h", directory: "/x")
!3 = !DIFile(filename: "/usr/share/pocl/include/_kernel.h", directory: "/x")
!5 = distinct !DISubprogram(name: "f", scope: !1, file: !1, line: 3)
!6 = distinct !DISubprogram(name: "strange", scope: !3, file: !3, line: 3)
!7 = distinct !DILexicalBlock(scope: !5, file: !2, line: 30)
!10 = !DILocation(line: 4, column: 1, scope: !5)
!11 = !DILocation(line: 3, column: 1, scope: !5)
!12 = !DILocation(line: 6, column: 1, scope: !5)
!13 = !DILocation(line: 7, column: 1, scope: !5)
!14 = !DILocation(line: 31, column: 1, scope: !7)
!15 = !DILocation(line: 9, column: 1, scope: !6)
)";

// A run of the check build: the lines of the kernel in blocks that did not run.
class CheckedRun {
 public:
  CheckedRun(const Variant& variant, const Binary& build, int rows, int columns) : build_(build) {
    Workload workload;
    workload.values = {{"R", rows}, {"C", columns}};
    auto plan = make_plan(variant, softmax(), workload, device().facts());
    BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
    auto session = device().open(build, check_plan(std::move(*plan), build), 120.0);
    BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
    std::vector<float> x(static_cast<std::size_t>(rows * columns));
    std::mt19937 random(1);
    for (float& value : x) value = std::normal_distribution<float>()(random);
    std::vector<std::vector<std::byte>> inputs(1), outputs(2);
    inputs[0].resize(x.size() * sizeof(float));
    std::memcpy(inputs[0].data(), x.data(), inputs[0].size());
    outputs[0].resize(inputs[0].size());
    outputs[1].resize(build.counters);
    for (int again = 0; again < 2; ++again) {
      const auto sample = (*session)->run(inputs, outputs, {});
      BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
    }
    const auto* const y = reinterpret_cast<const float*>(outputs[0].data());
    BOOST_TEST(std::accumulate(y, y + columns, 0.0) == 1.0, boost::test_tools::tolerance(1e-4));
    counters_ = outputs[1];
  }
  std::set<std::string> not_run() const {
    std::set<std::string> lines;
    for (const CodeBlock& block : build_.blocks)
      if (counters_.at(block.counter) == std::byte{0})
        lines.insert(block.file + ":" + std::to_string(block.first_line));
    return lines;
  }
  std::span<const std::byte> counters() const { return counters_; }

 private:
  const Binary& build_;
  std::vector<std::byte> counters_;
};

int line_with(const Variant& variant, const std::string& words) {
  const std::size_t at = variant.source.find(words);
  BOOST_REQUIRE(at != std::string::npos);
  return 1 + static_cast<int>(std::count(variant.source.begin(),
                                         variant.source.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(opencl_check_build)

BOOST_AUTO_TEST_CASE(each_block_of_the_kernels_own_files_gets_a_counter_behind_what_must_come_first) {
  const CountedIr counted = with_counters(kIr, "variant.cl", {"own.h"}, 1000);
  BOOST_REQUIRE(counted.blocks.size() == 3U);
  const auto is = [](const CodeBlock& block, std::uint64_t counter, const std::string& file, int first,
                     int last) {
    return block.counter == violation_bytes + counter && block.file == file && block.first_line == first &&
           block.last_line == last;
  };
  BOOST_TEST(is(counted.blocks[0], 0, "variant.cl", 4, 4));
  BOOST_TEST(is(counted.blocks[1], 1, "variant.cl", 6, 7));
  BOOST_TEST(is(counted.blocks[2], 2, "own.h", 31, 31));
  BOOST_TEST(counted.counters == violation_bytes + 3);
  const auto store = [](int counter) {
    return "  store volatile i8 1, ptr inttoptr (i64 " + std::to_string(1000 + violation_bytes + counter) +
           " to ptr), align 1\n";
  };
  BOOST_TEST(contains(counted.text, "entry:\n" + store(0) + "  %a.addr = alloca"), counted.text);
  BOOST_TEST(contains(counted.text, "[ 1, %then ]\n" + store(2) + "  %w = call"), counted.text);
}

BOOST_AUTO_TEST_CASE(a_program_of_another_form_is_not_changed) {
  const auto with_sizes = [](std::uint64_t all, std::uint32_t bytes) {
    std::string program = "poclbin head";
    program.append(reinterpret_cast<const char*>(&all), sizeof all);
    const std::uint32_t name = 11;
    program.append(reinterpret_cast<const char*>(&name), sizeof name);
    program += "/program.bc";
    program.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    return program + "BCown" + "kernels";
  };
  const auto changed = with_bitcode(with_sizes(5 + 19, 5), "BCown", "BCof another");
  BOOST_REQUIRE_MESSAGE(changed, (changed ? "" : changed.error().message));
  BOOST_TEST(contains(*changed, "BCof another" + std::string("kernels")));
  BOOST_TEST(changed->size() == with_sizes(5 + 19, 5).size() + 7);
  BOOST_TEST(!with_bitcode(with_sizes(5 + 18, 5), "BCown", "BC"));
  BOOST_TEST(!with_bitcode(with_sizes(5 + 19, 6), "BCown", "BC"));
  BOOST_TEST(!with_bitcode(with_sizes(5 + 19, 5) + "BCown", "BCown", "BC"));
  BOOST_TEST(!with_bitcode("BCown", "BCown", "BC"));
  BOOST_TEST(clang_of("x Debian clang version 15.0.6Dwarf") == "15");
  BOOST_TEST(clang_of("nothing") == "");
}

BOOST_AUTO_TEST_CASE(a_run_shows_the_blocks_that_it_executes, *needs_opencl()) {
  const Variant variant = kernel("coverage/never.cl");
  const auto build = compiler().compile_check_build(variant, {}, 120.0);
  BOOST_REQUIRE_MESSAGE(build, (build ? "" : build.error().message));
  BOOST_TEST(build->blocks.size() > 15U);
  const auto in_header = std::count_if(build->blocks.begin(), build->blocks.end(),
                                       [](const CodeBlock& block) { return block.file == "largest.h"; });
  BOOST_TEST(in_header > 5);
  const std::string never = "variant.cl:" + std::to_string(line_with(variant, "top = in[0];")),
                    odd = "variant.cl:" + std::to_string(line_with(variant, "sum += exp(in[C - 1]")),
                    condition = "variant.cl:" + std::to_string(line_with(variant, "if (C == 7919"));
  const CheckedRun even(variant, *build, 3, 64), uneven(variant, *build, 3, 65);
  BOOST_TEST(even.not_run() == (std::set<std::string>{never, odd, condition}),
             boost::test_tools::per_element());
  BOOST_TEST(uneven.not_run() == (std::set<std::string>{never, condition}), boost::test_tools::per_element());
  BOOST_TEST(!violation_in(even.counters(), build->blocks));
}

BOOST_AUTO_TEST_SUITE_END()
