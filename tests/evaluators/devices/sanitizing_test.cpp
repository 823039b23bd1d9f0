// SPDX-License-Identifier: Apache-2.0
// Parsing of compute-sanitizer's logs, and the meaning of a failure under it.
#include "evaluators/devices/cuda/sanitizing.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

using namespace cultivar;

namespace {

using Kind = SanitizerLook::Kind;

Compiled named(const char* name) {
  Compiled kernel;
  kernel.variant.manifest.name = name;
  return kernel;
}
const Compiled candidate = named("candidate"), honest = named("honest");

// A form of a tool that shows these, one after the other, and what it was asked about.
struct Script {
  std::vector<SanitizerLook> looks;
  std::vector<std::string> asked = {};
  SanitizerForm form() {
    return [this](const Compiled* kernel) {
      asked.push_back(kernel ? kernel->variant.manifest.name : "none");
      BOOST_REQUIRE(asked.size() <= looks.size());
      return looks[asked.size() - 1];
    };
  }
};
const SanitizerLook clean, failed{Kind::failed, "at smoke: wrong"}, lost{Kind::lost, "signal 11"};

}  // namespace

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

BOOST_AUTO_TEST_CASE(errors_are_counted_and_reported_verbatim) {
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

BOOST_AUTO_TEST_CASE(a_count_without_bound_is_as_many_errors_as_can_be_counted) {
  const std::string many(400'000, '9');
  for (const std::string& text :
       {"========= ERROR SUMMARY: " + many + " errors\n",
        std::string("========= ERROR SUMMARY: 2147483647 errors\n========= ERROR SUMMARY: 7 errors\n"),
        "========= RACECHECK SUMMARY: " + many + " hazards displayed (" + many + " errors, 0 warnings)\n"}) {
    const SanitizerLog log = read_sanitizer_log(text);
    BOOST_TEST(log.ended);
    BOOST_TEST(log.errors == std::numeric_limits<int>::max());
  }
  for (const char* odd : {"========= ERROR SUMMARY: -3 errors\n", "========= ERROR SUMMARY: many errors\n",
                          "ERROR SUMMARY: 0 errors\n", "========= RACECHECK SUMMARY: 1 hazard\n"})
    BOOST_TEST(!read_sanitizer_log(odd).ended, odd);
  BOOST_TEST(read_sanitizer_log("========= " + many + "\n").findings.size() < 5000u);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_fails_under_a_tool_and_not_without_is_refused) {
  Script memcheck{{failed, failed, clean}};
  const SanitizerOutcome outcome = examine("memcheck", {memcheck.form()}, candidate, &honest);
  BOOST_REQUIRE(outcome.rejection);
  BOOST_TEST((outcome.rejection->stage == Stage::confirm));
  BOOST_TEST(outcome.rejection->reason == "the variant fails under memcheck: at smoke: wrong");
  BOOST_TEST((memcheck.asked == std::vector<std::string>{"candidate", "candidate", "honest"}));
}

BOOST_AUTO_TEST_CASE(a_kernel_with_which_a_tool_is_lost_is_refused_where_the_tool_works_without_it) {
  Script analysis{{lost, lost, lost}}, hazards{{lost, lost, clean}};
  const SanitizerOutcome outcome =
      examine("racecheck", {analysis.form(), hazards.form()}, candidate, nullptr);
  BOOST_REQUIRE(outcome.rejection);
  BOOST_TEST(outcome.rejection->reason == "the variant fails under racecheck: signal 11");
  BOOST_TEST(hazards.asked.back() == "none");
}

BOOST_AUTO_TEST_CASE(one_tool_that_is_lost_blames_no_kernel_that_the_other_finds_clean) {
  const auto examined = [](const std::string& tool, std::vector<SanitizerLook> looks) {
    Script script{std::move(looks)};
    return examine(tool, {script.form()}, candidate, nullptr);
  };
  const SanitizerOutcome crashes = examined("memcheck", {lost, lost, clean}),
                         fine = examined("racecheck", {clean}),
                         slow = examined("racecheck", {failed, failed, clean});
  const SanitizerOutcome noted = together({crashes, fine});
  BOOST_TEST(!noted.rejection);
  BOOST_TEST(noted.note == "the variant fails under memcheck: signal 11");
  BOOST_TEST(together({crashes, crashes}).rejection.has_value());
  BOOST_TEST(together({crashes, slow}).rejection.has_value());
  BOOST_TEST(together({fine, slow}).rejection.has_value());
  BOOST_TEST(!together({fine, fine}).rejection);
}

BOOST_AUTO_TEST_CASE(noise_is_retried) {
  for (const SanitizerLook& first : {failed, lost}) {
    Script memcheck{{first, clean}};
    const SanitizerOutcome outcome = examine("memcheck", {memcheck.form()}, candidate, &honest);
    BOOST_TEST(!outcome.rejection);
    BOOST_TEST(outcome.note == "");
  }
}

BOOST_AUTO_TEST_CASE(the_next_form_is_asked_only_where_the_one_before_was_lost) {
  Script analysis{{lost}}, hazards{{clean}};
  BOOST_TEST(!examine("racecheck", {analysis.form(), hazards.form()}, candidate, &honest).rejection);
  BOOST_TEST(hazards.asked.size() == 1u);
  Script fails{{failed, failed, clean}}, never{{}};
  BOOST_TEST(examine("racecheck", {fails.form(), never.form()}, candidate, &honest).rejection.has_value());
}

BOOST_AUTO_TEST_CASE(a_tool_that_also_fails_with_an_honest_kernel_blames_no_variant) {
  for (const SanitizerLook& own : {failed, lost})
    for (const Compiled* control : {&honest, static_cast<const Compiled*>(nullptr)}) {
      Script memcheck{{lost, failed, own}};
      const SanitizerOutcome outcome = examine("memcheck", {memcheck.form()}, candidate, control);
      BOOST_TEST(!outcome.rejection);
      BOOST_TEST(outcome.note == "memcheck: at smoke: wrong; the tool also fails " +
                                     std::string(control ? "with honest" : "without any kernel") + ": " +
                                     own.reason);
    }
}

BOOST_AUTO_TEST_CASE(a_finding_refuses_at_once_and_an_interruption_ends_it) {
  Script finds{{{Kind::found, "memcheck found 2 errors", "Invalid read"}}};
  const SanitizerOutcome found = examine("memcheck", {finds.form()}, candidate, &honest);
  BOOST_REQUIRE(found.rejection);
  BOOST_TEST(found.rejection->reason == "memcheck found 2 errors");
  BOOST_TEST(found.rejection->diagnostics.find("Invalid read") != std::string::npos);
  Script stops{{{Kind::interrupted, "the work was interrupted"}}};
  const SanitizerOutcome stopped = examine("memcheck", {stops.form()}, candidate, &honest);
  BOOST_TEST(!stopped.rejection);
  BOOST_TEST(stopped.note == "memcheck: the work was interrupted");
}

BOOST_AUTO_TEST_SUITE_END()
