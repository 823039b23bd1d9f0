// SPDX-License-Identifier: Apache-2.0
// How OpenCL kernels run in their cells, and how those end that misbehave.
// runs alone
// also without bubblewrap
// long: 60 s, evaluators/devices/opencl, evaluators/languages/opencl_c
#include "evaluators/devices/opencl/session.hpp"

#include "support/contains.hpp"
#include "support/opencl_kernels.hpp"

using namespace cultivar;
using namespace cultivar::opencl_test;
using cultivar::testing::contains;

namespace {

// The fault of a kernel on a small shape, at the latest in the third run.
Fault fault_of(const std::string& file, double deadline_s = 60.0) {
  SoftmaxRun run(device(), "hostile/" + file, 33, 100, deadline_s);
  for (int i = 0; i < 3; ++i)
    if (const auto done = run.run(); !done) return done.error();
  return {Fault::Kind::unsupported, "no fault"};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(opencl_session, *needs_opencl())

BOOST_AUTO_TEST_CASE(a_correct_kernel_computes_on_new_inputs_and_is_timed) {
  SoftmaxRun run(device(), "honest_softmax.cl", 2048, 1024);
  BOOST_REQUIRE_MESSAGE(!run.refused, (run.refused ? run.refused->detail : ""));
  RunOptions timed;
  timed.timed = true;
  for (int i = 0; i < 6; ++i) {
    const auto sample = i < 3 ? run.run() : run.run(timed);
    BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
    BOOST_TEST(run.error() < 1e-5);
    BOOST_TEST(run.session().unwritten_elements() == 0u);
    BOOST_TEST((sample->seconds > 2e-5 && sample->seconds < 10.0), sample->seconds);
  }
}

BOOST_AUTO_TEST_CASE(a_device_with_memory_of_its_own_gets_copies) {
  OpenclDevice apart({cache_folder, program, true});
  SoftmaxRun run(apart, "honest_softmax.cl", 100, 77);
  for (int i = 0; i < 3; ++i) {
    const auto sample = run.run();
    BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
    BOOST_TEST(run.error() < 1e-5);
  }
  SoftmaxRun behind(apart, "hostile/writes_behind.cl", 33, 100);
  const auto written = behind.run();
  BOOST_REQUIRE(!written);
  BOOST_TEST((written.error().kind == Fault::Kind::guard_overwritten), written.error().detail);
  SoftmaxRun input(apart, "hostile/writes_input.cl", 33, 100);
  const auto changed = input.run();
  BOOST_REQUIRE(!changed);
  BOOST_TEST((changed.error().kind == Fault::Kind::input_changed), changed.error().detail);
  BOOST_TEST(contains(changed.error().detail, "'x'"), changed.error().detail);
}

BOOST_AUTO_TEST_CASE(writes_out_of_bounds_end_in_a_fault_that_says_where) {
  const Fault behind = fault_of("writes_behind.cl");
  BOOST_TEST((behind.kind == Fault::Kind::guard_overwritten || behind.kind == Fault::Kind::crashed),
             behind.detail);
  BOOST_TEST(contains(behind.detail, "past the end of 'y'"), behind.detail);
  const bool card = device().apart_from_host();  // its memory has no guards beyond those of the buffers
  if (!card) {
    const Fault far = fault_of("writes_far.cl");
    BOOST_TEST((far.kind == Fault::Kind::crashed), far.detail);
    BOOST_TEST(contains(far.detail, "SIGSEGV"), far.detail);
  }
  const Fault input = fault_of("writes_input.cl");
  BOOST_TEST((input.kind == (card ? Fault::Kind::input_changed : Fault::Kind::crashed)), input.detail);
  BOOST_TEST(contains(input.detail, "'x'"), input.detail);
  BOOST_TEST((fault_of("aborts.cl").kind == Fault::Kind::crashed));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_never_ends_is_killed_at_its_deadline) {
  const Fault fault = fault_of("runs_forever.cl", 15.0);
  BOOST_TEST((fault.kind == Fault::Kind::timed_out), fault.detail);
  BOOST_TEST(contains(fault.detail, "did not finish before the deadline"), fault.detail);
}

BOOST_AUTO_TEST_CASE(work_items_that_race_give_wrong_outputs) {
  for (const char* file : {"hostile/races.cl", "hostile/groups_race.cl"}) {
    SoftmaxRun run(device(), file, 256, 64);
    double worst = 0.0;
    for (int i = 0; i < 3; ++i) {
      const auto sample = run.run();
      BOOST_REQUIRE_MESSAGE(sample, (sample ? "" : sample.error().detail));
      worst = std::max(worst, run.error());
    }
    // The items of one group of a card run in step.
    BOOST_TEST((worst > 1e-3 || (device().apart_from_host() && std::string(file) == "hostile/races.cl")),
               file);
  }
}

BOOST_AUTO_TEST_SUITE_END()
