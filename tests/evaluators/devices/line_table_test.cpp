// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/line_table.hpp"

#include <cstdlib>
#include <set>

#include "evaluators/devices/cuda/run/cupti.hpp"
#include "evaluators/judge/profiling.hpp"
#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

namespace {

constexpr const char* kSource = R"(__device__ __forceinline__ float twice(float v) {
  float a = v * 2.0f;
  return a + sinf(v);
}

extern "C" __global__ void first(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  x = twice(x);
  out[i] = x;
}

extern "C" __global__ void second(float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[255 - threadIdx.x];
}
)";

struct Code {
  std::string bytes;
  LineTable lines;
  Cubin cubin;
};

Code code_of(const Variant& variant) {
  const Binary binary = compiled(variant);
  std::string bytes = text_of(binary.path);
  auto table = LineTable::read(std::as_bytes(std::span(bytes)));
  BOOST_REQUIRE_MESSAGE(table, (table ? "" : table.error().message));
  return {std::move(bytes), std::move(*table), cubin_of(binary)};
}

Code small() {
  return code_of(by_hand(kSource, {"second"}, {{"y", std::nullopt}}));
}

// The innermost line of variant.cu to which an instruction belongs.
std::optional<int> own_line(const Code& code, const std::string& function, std::uint64_t offset) {
  for (const SourceLine& line : code.lines.at(function, offset))
    if (line.file == "variant.cu") return line.line;
  return std::nullopt;
}

// The lines of variant.cu that instructions of a function belong to.
std::set<int> lines_of(const Code& code, const std::string& function) {
  std::set<int> lines;
  const CubinKernel* kernel = code.cubin.kernel(function);
  BOOST_REQUIRE(kernel != nullptr);
  for (std::uint64_t offset = 0; offset < kernel->code_bytes; offset += 16)
    if (const auto line = own_line(code, function, offset)) lines.insert(*line);
  return lines;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(line_table, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(instructions_belong_to_the_lines_that_they_were_written_in) {
  const Code code = small();
  const std::set<int> first = lines_of(code, "first"), second = lines_of(code, "second");
  for (const int line : {3, 7, 8, 9}) BOOST_TEST(first.contains(line), line);
  for (const int line : {16, 18}) BOOST_TEST(second.contains(line), line);
  BOOST_TEST(*first.rbegin() <= 12);
  BOOST_TEST(*second.begin() >= 14);
  BOOST_TEST(*second.rbegin() <= 19);
  BOOST_REQUIRE(!code.lines.offsets_of("second", "variant.cu", 18).empty());
}

BOOST_AUTO_TEST_CASE(an_inlined_instruction_also_shows_its_caller) {
  const Code code = small();
  bool found = false;
  for (const std::uint64_t offset : code.lines.offsets_of("first", "variant.cu", 3)) {
    const auto chain = code.lines.at("first", offset);
    BOOST_REQUIRE(!chain.empty());
    if (chain.front().line != 3) continue;  // another row at the same place counts
    BOOST_REQUIRE(chain.size() == 2u);
    BOOST_TEST((chain[1] == SourceLine{"variant.cu", 10}));
    found = true;
  }
  BOOST_TEST(found);
}

BOOST_AUTO_TEST_CASE(what_lies_in_a_header_belongs_to_the_line_that_called_it) {
  const Code code =
      code_of(by_hand("#line 100 \"header.h\"\n"
                      "__device__ __forceinline__ float heavy(float v) { return sinf(v) * v; }\n"
                      "#line 3 \"variant.cu\"\n"
                      "extern \"C\" __global__ void k(float* in) {\n"
                      "  in[threadIdx.x] = heavy(in[threadIdx.x]);\n"
                      "}\n",
                      {"k"}, {{"y", std::nullopt}}));
  bool in_header = false;
  for (std::uint64_t offset = 0; offset < code.cubin.kernel("k")->code_bytes; offset += 16) {
    const auto chain = code.lines.at("k", offset);
    if (chain.empty() || chain.front().file == "variant.cu") continue;
    in_header = true;
    BOOST_TEST((own_line(code, "k", offset) == std::optional(4)));
  }
  BOOST_TEST(in_header);
}

BOOST_AUTO_TEST_CASE(unknown_functions_and_offsets_and_broken_files_are_said) {
  const Code code = small();
  BOOST_TEST(code.lines.at("third", 0).empty());
  BOOST_TEST(code.lines.at("second", 1 << 20).empty());
  BOOST_TEST(!LineTable::read({}).has_value());
  for (std::size_t length = 0; length < code.bytes.size(); length += 97)
    (void)LineTable::read(std::as_bytes(std::span(code.bytes).first(length)));
  std::string twisted = code.bytes;  // every byte of it once: no crash, no endless loop
  for (std::size_t i = 0; i < twisted.size(); i += 3) {
    const char kept = twisted[i];
    twisted[i] = static_cast<char>(kept ^ 0xff);
    if (const auto table = LineTable::read(std::as_bytes(std::span(twisted)))) (void)table->at("first", 0x40);
    twisted[i] = kept;
  }
}

BOOST_AUTO_TEST_CASE(it_says_what_cupti_says) {
  const auto cupti = cuda::load_cupti();
  if (!cupti) {
    BOOST_TEST_MESSAGE("skipped: " << cupti.error().message);
    return;
  }
  for (const Variant& variant :
       {kernel("wgmma_tma.cu"),
        load_variant(source_folder / "configs/tasks/attention_forward/seeds/cuda_wgmma.cu",
                     task_named("attention_forward"))}) {
    const Code code = code_of(variant);
    const std::string function = code.cubin.kernels.front().name;
    std::size_t same = 0, all = 0;
    for (std::uint64_t offset = 0; offset < code.cubin.kernels.front().code_bytes; offset += 16 * 7) {
      auto p = cuda::cupti::params<cuda::cupti::CorrelationParams>();
      p.cubin = code.bytes.data();
      p.cubin_bytes = code.bytes.size();
      p.function = function.c_str();
      p.offset = offset;
      BOOST_REQUIRE((*cupti)->GetSassToSourceCorrelation(&p) == cuda::cupti::success);
      const auto ours = code.lines.at(function, offset);
      ++all;
      same += !ours.empty() && ours.front().line == static_cast<int>(p.line);
      std::free(p.file);
      std::free(p.folder);
    }
    BOOST_TEST(all > 10u);
    BOOST_TEST(same == all, variant.manifest.name << ": " << same << " of " << all);
  }
}

BOOST_AUTO_TEST_CASE(samples_are_reported_by_line_with_the_lines_text) {
  const Code code = small();
  const auto at18 = code.lines.offsets_of("second", "variant.cu", 18).back(),
             at16 = code.lines.offsets_of("second", "variant.cu", 16).back();
  PcSamples samples;
  samples.samples = {{"second", at18, "short_scoreboard", 50, 40},     {"second", at18, "selected", 500, 0},
                     {"second", at16, "long_scoreboard", 200, 150},    {"second", at16, "wait", 10, 1},
                     {"second", std::uint64_t{1} << 30, "wait", 7, 0}, {"first", 0, "wait", 999, 0}};
  const auto without = stalls_by_line(samples, "second", kSource, "variant.cu");
  code.lines.add_to(samples);
  const auto lines = stalls_by_line(samples, "second", kSource, "variant.cu");
  BOOST_REQUIRE(lines.size() == 3u);
  BOOST_TEST(lines[0].line == 16);  // 550 samples elsewhere, but these wait
  BOOST_TEST(lines[0].text == "s[threadIdx.x] = out[threadIdx.x];");
  BOOST_TEST(lines[0].samples == 210u);
  BOOST_TEST(lines[0].stalls.at("long_scoreboard").exposed == 150u);
  BOOST_TEST(lines[1].line == 18);
  BOOST_TEST(lines[1].samples == 550u);
  BOOST_TEST(lines[2].line == 0);
  BOOST_TEST(stalls_by_line(samples, "second", kSource, "variant.cu", 1).size() == 1u);
  BOOST_REQUIRE(without.size() == 1u);
  BOOST_TEST(without[0].samples == 767u);
}

BOOST_AUTO_TEST_SUITE_END()
