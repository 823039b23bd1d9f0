// SPDX-License-Identifier: Apache-2.0
// What oclgrind finds in kernels, as the second look at a confirmation.
// long: 60 s, evaluators/devices/opencl, evaluators/languages/opencl_c
#include "evaluators/devices/opencl/oclgrind.hpp"

#include "evaluators/system/process.hpp"
#include "support/contains.hpp"
#include "support/opencl_kernels.hpp"

using namespace cultivar;
using namespace cultivar::opencl_test;
using cultivar::testing::contains;

namespace {

boost::test_tools::assertion_result oclgrind_is_here(boost::unit_test::test_unit_id id) {
  if (const auto here = opencl_is_here(id); !here) return here;
  boost::test_tools::assertion_result here(!find_program("oclgrind").empty());
  if (!here) here.message() << "oclgrind is not installed";
  return here;
}

SecondLook::Outcome look_at(const std::string& file) {
  ServiceOptions options;
  options.target = target_named("opencl");
  options.programs = CULTIVAR_BIN_DIR;
  options.task_folder = source_folder / "configs/tasks/softmax";
  Oclgrind look(options);
  Workload workload;
  workload.dtype = Dtype::f32;
  return look.run(Compiled{kernel(file), {}}, {workload}, {});
}

std::string refusal(const std::string& file) {
  const SecondLook::Outcome outcome = look_at(file);
  BOOST_REQUIRE_MESSAGE(outcome.rejection, file << ": no rejection; " << outcome.note);
  BOOST_TEST((outcome.rejection->stage == Stage::confirm));
  return outcome.rejection->reason + "\n" + outcome.rejection->diagnostics;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(oclgrind, *boost::unit_test::precondition(oclgrind_is_here))

BOOST_AUTO_TEST_CASE(a_log_says_what_was_found_first_and_how_much) {
  const OclgrindLog log = read_oclgrind_log(
      "\nInvalid write of size 4 at global memory address 0x2000\n\tKernel: k\n\nRead-write data race at "
      "local memory "
      "address 0x4\n\tKernel: k\n");
  BOOST_TEST(log.findings == 2);
  BOOST_TEST(log.first == "Invalid write of size 4 at global memory address 0x2000");
  BOOST_TEST(contains(log.text, "data race"));
  BOOST_TEST(read_oclgrind_log("").findings == 0);
}

BOOST_AUTO_TEST_CASE(a_correct_kernel_is_clean) {
  const SecondLook::Outcome outcome = look_at("honest_softmax.cl");
  BOOST_TEST(!outcome.rejection, (outcome.rejection ? outcome.rejection->diagnostics : ""));
  BOOST_TEST(outcome.note == "");
}

BOOST_AUTO_TEST_CASE(races_and_writes_out_of_bounds_are_refused_with_their_lines) {
  const std::string local = refusal("hostile/races.cl");
  BOOST_TEST(contains(local, "Read-write data race at local memory"), local);
  BOOST_TEST(contains(local, "sum = sums[me];"), local);
  BOOST_TEST(contains(refusal("hostile/groups_race.cl"), "data race at global memory"));
  BOOST_TEST(contains(refusal("hostile/writes_behind.cl"), "Invalid write of size 4"));
}

BOOST_AUTO_TEST_CASE(what_is_read_before_it_is_written_is_refused_with_its_line) {
  const std::string words = refusal("hostile/reads_unwritten.cl");
  BOOST_TEST(contains(words, "Uninitialized value written to global memory"), words);
  BOOST_TEST(contains(words, "oclgrind --uninitialized found"), words);
}

BOOST_AUTO_TEST_SUITE_END()
