// SPDX-License-Identifier: Apache-2.0
// Whose fault a lack of memory on a card is. The figures are those of a card of 80 GiB.
#include "evaluators/devices/cuda/run/device_memory.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/judge/stages.hpp"

using namespace cultivar;
using namespace cultivar::cuda;

namespace {

constexpr std::uint64_t operator""_GiB(unsigned long long n) {
  return n << 30;
}

bool others_fault(const CardMemory& card, std::uint64_t needed) {
  return lack_of_memory(card, needed, "x").kind == Fault::Kind::memory_held;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_card_memory)

BOOST_AUTO_TEST_CASE(memory_that_other_programs_hold_is_not_the_kernels_fault) {
  const CardMemory card{80_GiB, 5_GiB, 4_GiB};
  const Fault fault = lack_of_memory(card, 20_GiB, "the kernel's buffers need much");
  BOOST_TEST(name_of(fault.kind) == "memory_held");
  BOOST_TEST(fault.detail ==
             "the kernel's buffers need much: of the card's 80.0 GiB, 5.0 GiB are free, and other programs "
             "hold about 71.0 GiB");
  const Evaluation rejected = rejection_of(Stage::smoke, fault, "R8");
  BOOST_TEST((rejected.host_fault == HostFault::memory_held));
  BOOST_TEST(rejected.diagnostics.find("nvidia-smi") != std::string::npos);
  BOOST_TEST(!may_be_the_variants(HostFault::memory_held));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_would_not_fit_into_the_whole_card_needs_too_much) {
  BOOST_TEST(others_fault({80_GiB, 5_GiB, 4_GiB}, 74_GiB));
  BOOST_TEST(!others_fault({80_GiB, 5_GiB, 4_GiB}, 75_GiB));  // beside its own 4 and the context
  BOOST_TEST(!others_fault({80_GiB, 5_GiB, 4_GiB}, ~std::uint64_t{0}));
  BOOST_TEST(!others_fault({80_GiB, 1_GiB, 79_GiB}, 2_GiB));
}

BOOST_AUTO_TEST_CASE(without_other_programs_it_is_the_kernels) {
  BOOST_TEST(!others_fault({80_GiB, 70_GiB, 8_GiB}, 69_GiB));  // 2 GiB may be the context's
  BOOST_TEST(others_fault({80_GiB, 69_GiB, 8_GiB}, 69_GiB));
}

BOOST_AUTO_TEST_SUITE_END()
