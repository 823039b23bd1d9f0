// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/cubin.hpp"

#include "evaluators/devices/cuda/code/screen.hpp"
#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

BOOST_AUTO_TEST_SUITE(cuda_cubin, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(a_kernels_parameters_bounds_and_registers_are_those_of_the_source_and_of_ptxas) {
  const Binary binary = compiled(kernel("wgmma_tma.cu"));
  const Cubin cubin = cubin_of(binary);
  BOOST_REQUIRE(cubin.kernels.size() == 1u);
  const CubinKernel& k = cubin.kernels.front();
  BOOST_TEST(k.name == "row_maxima");
  BOOST_REQUIRE(k.parameters.size() == 6u);
  std::vector<std::uint32_t> bytes;
  for (const CubinParameter& p : k.parameters) bytes.push_back(p.bytes);
  BOOST_TEST((bytes == std::vector<std::uint32_t>{128, 128, 8, 4, 4, 4}));
  BOOST_TEST(k.parameters[1].offset - k.parameters[0].offset == 128u);
  BOOST_REQUIRE(k.threads_at_most.has_value());
  BOOST_TEST((*k.threads_at_most)[0] == 256u);
  BOOST_TEST(!k.cluster_exactly.has_value());
  const auto reports = read_ptxas_log(binary.log);
  BOOST_REQUIRE(reports.size() == 1u);
  BOOST_TEST(reports[0].registers == k.registers);
  BOOST_TEST(reports[0].shared_bytes == k.shared_bytes);
  BOOST_TEST(reports[0].barriers == k.barriers);
  BOOST_TEST(cubin.kernel("row_maxima") == &k);
  BOOST_TEST(cubin.kernel("row_minima") == nullptr);
}

BOOST_AUTO_TEST_CASE(attributes_of_the_source_are_read) {
  const Cubin cubin = cubin_of(compiled(by_hand(
      "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) a(float* y) { y[0] = 1; "
      "}\n"
      "extern \"C\" __global__ void __block_size__((64, 2, 1)) b(float* y, char c, short s, double d) {"
      " y[c + s] = d; }\n",
      {"a"}, {{"y", std::nullopt}})));
  BOOST_REQUIRE(cubin.kernel("a") != nullptr);
  BOOST_REQUIRE(cubin.kernel("b") != nullptr);
  using Three = std::array<std::uint32_t, 3>;
  BOOST_TEST((cubin.kernel("a")->cluster_exactly == Three{2, 1, 1}));
  BOOST_TEST((cubin.kernel("a")->threads_at_most == Three{128, 1, 1}));
  BOOST_TEST((cubin.kernel("b")->threads_exactly == Three{64, 2, 1}));
  std::vector<std::uint32_t> offsets, bytes;
  for (const CubinParameter& p : cubin.kernel("b")->parameters)
    offsets.push_back(p.offset), bytes.push_back(p.bytes);
  BOOST_TEST((offsets == std::vector<std::uint32_t>{0, 8, 10, 16}));
  BOOST_TEST((bytes == std::vector<std::uint32_t>{8, 1, 2, 8}));
}

BOOST_AUTO_TEST_CASE(variables_and_tables_are_listed) {
  const Cubin cubin = cubin_of(compiled(kernel("two_kernels.cu")));
  const auto names = [](const std::vector<CubinVariable>& list) {
    std::string all;
    for (const CubinVariable& v : list) all += v.name + ":" + std::to_string(v.bytes) + " ";
    return all;
  };
  BOOST_TEST(contains(names(cubin.constants), "steps:20"), names(cubin.constants));
  BOOST_TEST(contains(names(cubin.globals), "halves:16"), names(cubin.globals));
  BOOST_TEST(cubin.kernels.size() == 2u);
  BOOST_TEST(cubin.externals.empty());
}

BOOST_AUTO_TEST_CASE(a_damaged_cubin_is_an_error_and_never_a_crash) {
  const std::string whole = text_of(compiled(kernel("cluster_sum.cu")).path);
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 61) {
    const std::string part = whole.substr(0, bytes);
    BOOST_TEST(!read_cubin(std::as_bytes(std::span(part))).has_value());
  }
  std::uint64_t state = 7;
  const auto random = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  std::size_t refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 4; ++i)
      damaged[random() % (i % 2 ? damaged.size() : 64)] = static_cast<char>(random());
    refused += !read_cubin(std::as_bytes(std::span(damaged))).has_value();
  }
  BOOST_TEST(refused > 500u);
}

BOOST_AUTO_TEST_SUITE_END()
