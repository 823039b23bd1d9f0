// SPDX-License-Identifier: Apache-2.0
// Runs everywhere: the message if NVRTC is missing, and what is found if it is installed.
#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

BOOST_AUTO_TEST_SUITE(cuda_toolkit)

BOOST_AUTO_TEST_CASE(a_missing_nvrtc_is_said_at_once_with_what_to_install) {
  const FreshCache cache("cuda-missing");
  CudaCompilerOptions none = options(cache.folder);
  none.library = "/nowhere/libnvrtc.so.13";
  BOOST_CHECK_EXCEPTION(CudaCompiler{none}, MissingError,
                        [](const MissingError& e) { return contains(e.what(), "/nowhere/libnvrtc.so.13"); });
  fs::create_directories(cache.folder);
  const fs::path not_one = cache.folder / "libnvrtc.so.99";
  std::ofstream(not_one) << "not a library";
  none.library = not_one;
  BOOST_CHECK_THROW(CudaCompiler{none}, MissingError);
  none.program = cache.folder / "cultivar-nvrtc";
  BOOST_CHECK_EXCEPTION(CudaCompiler{none}, MissingError, [](const MissingError& e) {
    return contains(e.what(), "build all targets of Cultivar");
  });
}

BOOST_AUTO_TEST_CASE(a_toolkit_that_is_found_has_a_version_architectures_and_headers, *needs_nvrtc()) {
  BOOST_TEST(toolkit()->major >= 12);
  BOOST_TEST(!toolkit()->architectures.empty());
  BOOST_REQUIRE(!toolkit()->includes.empty());
  BOOST_TEST(fs::exists(toolkit()->includes.front() / "cuda_bf16.h"));
  const auto same = find_cuda_toolkit(nvrtc_program, toolkit()->library);
  BOOST_REQUIRE(same.has_value());
  BOOST_TEST(same->version() == toolkit()->version());
}

BOOST_AUTO_TEST_CASE(the_compiler_program_explains_wrong_usage) {
  BOOST_TEST(std::system((nvrtc_program.string() + " nonsense 2>/dev/null").c_str()) == 2 << 8);
}

BOOST_AUTO_TEST_SUITE_END()
