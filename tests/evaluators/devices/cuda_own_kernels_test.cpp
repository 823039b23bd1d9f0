// SPDX-License-Identifier: Apache-2.0
// The judge's own kernels, compiled for the architectures of the cards that it knows. What they do is tested
// on a GPU; that they compile, and hold what they are to overwrite, is tested here.
#include "evaluators/devices/cuda/run/own_kernels.hpp"

#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;

namespace {

Cubin own(const std::string& architecture) {
  const auto code = cuda::own_machine_code(architecture, cache_folder, nvrtc_program);
  auto cubin = read_cubin(code);
  BOOST_REQUIRE_MESSAGE(cubin, (cubin ? "" : cubin.error().message));
  return *std::move(cubin);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_own_kernels, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(the_kernel_that_overwrites_registers_holds_all_of_a_multiprocessor) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const Cubin cubin = own(architecture);
    const CubinKernel* const fills = cubin.kernel("cultivar_fill_registers");
    BOOST_REQUIRE(fills != nullptr);
    BOOST_TEST(fills->registers == 64U,
               architecture << ": " << fills->registers);  // of 65,536 for 1,024 threads
    BOOST_TEST(fills->stack_bytes == 0U, architecture);
    for (const char* name : {"cultivar_scrub", "cultivar_nothing", "cultivar_write_guards"})
      BOOST_TEST(cubin.kernel(name) != nullptr, name);
  }
}

BOOST_AUTO_TEST_CASE(the_kernel_that_overwrites_local_memory_has_a_larger_frame_than_a_candidate) {
  for (const std::uint32_t bytes : {0u, 8u, 1024u, 1032u, 3072u, 5000u, 20000u}) {
    const auto code =
        cuda::own_machine_code(cuda::LocalScrub::source(bytes), "sm_90a", cache_folder, nvrtc_program);
    const auto cubin = read_cubin(code);
    BOOST_REQUIRE(cubin.has_value());
    const CubinKernel* const scrub = cubin->kernel("cultivar_scrub_local");
    BOOST_REQUIRE(scrub != nullptr);
    BOOST_TEST(scrub->stack_bytes >= bytes + (bytes == 0 ? 1024 : 1000), bytes << ": " << scrub->stack_bytes);
    BOOST_TEST(scrub->stack_bytes < bytes + 6000, bytes << ": " << scrub->stack_bytes);
    BOOST_TEST(scrub->registers <= 32U);  // two blocks of 1,024 threads on a multiprocessor
  }
}

BOOST_AUTO_TEST_SUITE_END()
