// The words of compute-sanitizer's logs.
#include "evaluators/worker/sanitizing.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

BOOST_AUTO_TEST_SUITE(sanitizing)

BOOST_AUTO_TEST_CASE(a_clean_log_ends_without_errors) {
  const SanitizerLog memcheck =
      read_sanitizer_log("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n");
  BOOST_TEST(memcheck.ended);
  BOOST_TEST(memcheck.errors == 0);
  BOOST_TEST(memcheck.findings == "");
  const SanitizerLog racecheck = read_sanitizer_log(
      "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 "
      "warnings)\n");
  BOOST_TEST(racecheck.ended);
  BOOST_TEST(racecheck.errors == 0);  // warnings are no errors
}

BOOST_AUTO_TEST_CASE(errors_are_counted_and_told_in_the_tools_words) {
  const SanitizerLog log = read_sanitizer_log(
      "========= COMPUTE-SANITIZER\n"
      "========= Invalid __global__ read of size 4 bytes\n"
      "=========     at softmax+0x120\n"
      "=========     Host Frame: launch in driver\n"
      "========= ERROR SUMMARY: 12 errors\n");
  BOOST_TEST(log.ended);
  BOOST_TEST(log.errors == 12);
  BOOST_TEST(log.findings == "Invalid __global__ read of size 4 bytes\nat softmax+0x120\n");
  BOOST_TEST(
      read_sanitizer_log("========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n").errors ==
      1);
}

BOOST_AUTO_TEST_CASE(a_log_that_was_cut_has_no_end) {
  BOOST_TEST(!read_sanitizer_log("").ended);
  BOOST_TEST(
      !read_sanitizer_log("========= COMPUTE-SANITIZER\n========= Invalid __shared__ write of size 4\n")
           .ended);
}

BOOST_AUTO_TEST_SUITE_END()
