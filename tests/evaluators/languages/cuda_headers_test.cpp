// SPDX-License-Identifier: Apache-2.0
// A variant with headers under NVRTC: compiled, screened, its lines named, and what it still cannot reach.
#include "evaluators/devices/cuda/code/diagnostics.hpp"
#include "evaluators/devices/cuda/code/line_table.hpp"
#include "evaluators/devices/cuda/run/cupti.hpp"
#include "evaluators/judge/profiling.hpp"
#include "evaluators/languages/cuda_cpp/toolkit.hpp"
#include "evaluators/variant/source_files.hpp"
#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

namespace {

const std::string main_file =
    "#include <cuda_bf16.h>\n#include \"tile.cuh\"\n\nextern \"C\" __global__ void k(float* y, int n) {\n"
    "  y[threadIdx.x] = twice(y[threadIdx.x], n);\n}\n";
const std::string tile =
    "#pragma once\n\n__device__ __noinline__ float twice(float v, int n) {\n  return 2.0f * v + n;\n}\n";

Variant with(const std::vector<HeaderFile>& headers, const std::string& main = main_file) {
  return by_hand(fold_source(main, headers), {"k"}, {{"y", std::nullopt}, {"n", std::nullopt}});
}
Variant with(const std::string& header) {
  return with({{"tile.cuh", header, 0}});
}

// Compute-time code that reads the global timer without the source holding its name.
const std::string timer =
    "__device__ float twice(float v, int n) {\n  unsigned long long t;\n"
    "  asm volatile(\"mov.u64 %0, %glob\" \"altimer;\" : \"=l\"(t));\n  return v + float(t) + n;\n}\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_headers, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(a_header_is_compiled_with_its_main_file_and_is_part_of_the_key) {
  const Binary binary = compiled(with(tile));
  BOOST_TEST(binary.machine_code == compiled(with("// the same\n" + tile)).machine_code);
  BOOST_TEST(binary.machine_code !=
             compiled(with(tile + "#define ODD\n__device__ int more(int n) { return n; }\n"
                                  "#define twice(v, n) (twice(v, n) + more(n))\n"))
                 .machine_code);
  BOOST_TEST(
      compiled(with({{"tile.cuh", "#include \"deep.inl\"\n", 0}, {"deep.inl", tile, 0}})).machine_code ==
      binary.machine_code);
}

BOOST_AUTO_TEST_CASE(an_error_in_a_header_names_the_header_and_its_own_line) {
  const CompileFailure failure =
      failure_of(with("#pragma once\n\n__device__ float twice(float v, int n) { return w; }\n"));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST(failure.reason.starts_with("tile.cuh(3): error"), failure.reason);
}

BOOST_AUTO_TEST_CASE(what_ptxas_rejects_is_reported_with_the_headers_line) {
  const CompileFailure failure =
      failure_of(with("#pragma once\n__device__ __noinline__ float twice(float v, int n) {\n  asm "
                      "volatile(\"nonsense.f32 %0;\" : \"+f\"(v));\n"
                      "  return v + n;\n}\n"));
  BOOST_TEST(contains(failure.diagnostics, "// tile.cuh(3)"), failure.diagnostics);
}

BOOST_AUTO_TEST_CASE(instructions_and_samples_belong_to_the_line_of_the_file_they_were_written_in) {
  const Variant variant = with(tile);
  const Binary binary = compiled(variant);
  const std::string bytes = text_of(binary.path);
  const auto table = LineTable::read(std::as_bytes(std::span(bytes)));
  BOOST_REQUIRE(table);
  const std::string function = "k";  // what it calls lies in its own section
  BOOST_REQUIRE(!table->offsets_of(function, "tile.cuh", 4).empty());
  BOOST_REQUIRE(!table->offsets_of("k", "variant.cu", 5).empty());
  PcSamples samples;
  samples.samples = {{function, table->offsets_of(function, "tile.cuh", 4).back(), "wait", 50, 40}};
  table->add_to(samples);
  auto lines = stalls_by_line(samples, function, variant.source, "variant.cu");
  BOOST_TEST_REQUIRE(lines.size() == 1u);
  BOOST_TEST(lines[0].place() == "tile.cuh:4");
  BOOST_TEST(lines[0].text == "return 2.0f * v + n;");
  samples.samples = {{"k", table->offsets_of("k", "variant.cu", 5).back(), "wait", 50, 40}};
  table->add_to(samples);
  lines = stalls_by_line(samples, "k", variant.source, "variant.cu");
  BOOST_TEST_REQUIRE(lines.size() == 1u);
  BOOST_TEST(lines[0].place() == "5");
  BOOST_TEST(lines[0].text == "y[threadIdx.x] = twice(y[threadIdx.x], n);");
}

BOOST_AUTO_TEST_CASE(the_screen_sees_what_stands_in_headers) {
  const CompileFailure kept =
      failure_of(with("__device__ float last;\n__device__ __forceinline__ float twice(float v, int n) {\n  "
                      "last = v;\n  return v;\n}\n"));
  BOOST_TEST((kept.stage == Stage::screen));
  BOOST_TEST(contains(kept.reason, "last (tile.cuh:3: "), kept.reason);
  const CompileFailure clock =
      failure_of(with("__device__ float twice(float v, int n) { return v + float(clock64()); }\n"));
  BOOST_TEST(contains(clock.reason, "reads a clock"), clock.reason);
}

BOOST_AUTO_TEST_CASE(a_clock_in_a_header_is_not_taken_for_the_toolkits) {
  const CompileFailure failure = failure_of(with(timer));
  BOOST_TEST((failure.stage == Stage::screen), failure.reason);
  BOOST_TEST(contains(failure.reason, "reads a clock (%globaltimer)"), failure.reason);
  // Nor by another name for its lines, in the main file or in the header.
  for (const char* renamed :
       {"#line 7 \"cuda/barrier.h\"\n", "# 7 \"/usr/local/cuda/include/cuda/barrier.h\"\n",
        "#  line 7 \"barrier.h\"\n", "#/**/line 7 \"barrier.h\"\n", "#li\\\nne 7 \"barrier.h\"\n",
        "/* # */ # 7 \"barrier.h\"\n", "/*\n*/\t# line 7 \"barrier.h\"\n", "%: 7 \"barrier.h\"\n"}) {
    const CompileFailure here = failure_of(with(renamed + timer));
    BOOST_TEST(contains(here.reason, "reads a clock"), renamed << here.reason);
    const CompileFailure alone =
        failure_of(with({}, renamed + timer + main_file.substr(main_file.find("\nextern"))));
    BOOST_TEST(contains(alone.reason, "reads a clock"), renamed << alone.reason);
  }
}

BOOST_AUTO_TEST_CASE(the_toolkits_own_waiting_is_a_clock_in_a_header_as_in_the_main_file) {
  const std::string waiting =
      "#include <cuda/barrier>\n__device__ float twice(float v, int n) {\n"
      "  __shared__ cuda::barrier<cuda::thread_scope_block> b;\n  if (threadIdx.x == 0) init(&b, "
      "blockDim.x);\n"
      "  __syncthreads();\n  b.arrive_and_wait();\n  return v + n;\n}\n";
  for (const CompileFailure& failure :
       {failure_of(with(waiting)),
        failure_of(with({}, waiting + main_file.substr(main_file.find("\nextern"))))}) {
    BOOST_TEST(contains(failure.reason, "reads a clock (%globaltimer)"), failure.reason);
    BOOST_TEST(contains(failure.diagnostics, "wait() of cuda::barrier"), failure.diagnostics);
  }
}

BOOST_AUTO_TEST_CASE(a_header_reaches_no_other_file_and_a_circle_of_them_is_an_error) {
  using Walls = CudaCompilerOptions::Walls;
  for (const Walls walls : {Walls::bubblewrap, Walls::landlock, Walls::none}) {
    const FreshCache cache("cuda-headers");
    CudaCompilerOptions behind = options(cache.folder);
    behind.best_walls = walls;
    CudaCompiler walled(behind);
    const bool by_text = contains(walled.info().isolation, "no Landlock");
    for (const char* out :
         {"#include \"/etc/passwd\"\n", "#include \"../out/variant.log\"\n", "#include \"missing.cuh\"\n"}) {
      const auto binary = walled.compile(with(out + tile), {}, 60.0);
      BOOST_REQUIRE(!binary);
      BOOST_TEST(
          contains(binary.error().reason, by_text ? "may not be read here" : "cannot open source file"),
          out << binary.error().reason);
      BOOST_TEST(!contains(binary.error().diagnostics, "root:"));
    }
    const auto probing = walled.compile(
        with("#if __has_include(\"/etc/passwd\")\n#error found\n#else\n#error hidden\n#endif\n"), {}, 60.0);
    BOOST_REQUIRE(!probing);
    BOOST_TEST(contains(probing.error().reason, by_text ? "may not be read here" : "hidden"),
               probing.error().reason);
    const auto good = walled.compile(with(tile), {}, 60.0);
    BOOST_TEST(good.has_value(), (good ? "" : good.error().reason + "\n" + good.error().diagnostics));
    const auto circle = walled.compile(
        with({{"tile.cuh", "#include \"b.cuh\"\n", 0}, {"b.cuh", "#include \"tile.cuh\"\n", 0}}), {}, 60.0);
    BOOST_REQUIRE(!circle);
    BOOST_TEST(contains(circle.error().reason, "b.cuh(1): "), circle.error().reason);
    BOOST_TEST(contains(circle.error().reason, "includes itself"), circle.error().reason);
  }
}

BOOST_AUTO_TEST_CASE(a_header_may_not_take_the_place_of_the_toolkits) {
  // `device_types.h` is none that lint refuses; toolkits differ in what they have.
  const CompileFailure failure =
      failure_of(with({{"device_types.h", tile, 0}}, main_file + "#include \"device_types.h\"\n"));
  BOOST_TEST((failure.stage == Stage::screen));
  BOOST_TEST(contains(failure.reason, "device_types.h has the same name as a toolkit header"),
             failure.reason);
}

BOOST_AUTO_TEST_SUITE_END()
