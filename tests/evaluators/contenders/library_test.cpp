// SPDX-License-Identifier: Apache-2.0
// Contender libraries loaded and called as a worker does: real ones, right and wrong.
#include "evaluators/contenders/library.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/devices/cpu/session.hpp"
#include "support/contains.hpp"
#include "support/contenders.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using cultivar::testing::TemporaryFolder;
using cultivar::testing::words;

namespace {

const Task& softmax() {
  static const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  return task;
}

Workload shape(double rows, double columns, Dtype dtype = Dtype::f32) {
  Workload w;
  w.name = "w";
  w.dtype = dtype;
  w.values = {{"R", rows}, {"C", columns}};
  return w;
}

struct Libraries {
  TemporaryFolder folder;
  std::filesystem::path make(const std::string& macro) {
    return testing::contender_library(folder.path(), macro);
  }
  std::string why_not(const std::filesystem::path& file) {
    const auto library = ContenderLibrary::load(file, softmax(), target_named("cpu"));
    return library ? "it loads" : library.error().message;
  }
  // The result of one run: "" if it is correct.
  std::string run(const std::string& macro, const Workload& w = shape(3, 4)) {
    auto session = HostContenderSession::open({make(macro)}, {}, softmax(), w, 2, target_named("cpu"));
    if (!session) return std::string(name_of(session.error().kind)) + ": " + session.error().detail;
    const std::size_t count = 12;
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 4);
    std::vector<std::vector<std::byte>> inputs(1), outputs(1);
    inputs[0].resize(4 * count);
    std::memcpy(inputs[0].data(), x.data(), 4 * count);
    for (const bool timed : {false, true, false}) {
      RunOptions options;
      options.timed = timed;
      options.poison_seed = timed ? 5 : 6;
      const auto ran = (*session)->run(inputs, outputs, options);
      if (!ran) return std::string(name_of(ran.error().kind)) + ": " + ran.error().detail;
      if ((*session)->unwritten_elements() > 0) return "unwritten";
      if (!(ran->seconds > 0.0 && ran->seconds < 1.0)) return "no time";
      float y[4];
      std::memcpy(y, outputs[0].data(), sizeof y);
      if (std::abs(y[0] - 0.0320586f) > 1e-6f || std::abs(y[3] - 0.6439143f) > 1e-6f) return "wrong";
    }
    return "";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(library, Libraries)

BOOST_AUTO_TEST_CASE(a_library_made_from_the_header_alone_says_what_it_is_and_computes) {
  const auto library = ContenderLibrary::load(make(""), softmax(), target_named("cpu"));
  BOOST_REQUIRE_MESSAGE(library, words(library));
  BOOST_TEST(library->name() == "plain");
  BOOST_TEST(library->version() == "1.0");
  BOOST_TEST(run("") == "");
}

BOOST_AUTO_TEST_CASE(a_library_that_is_not_a_contender_is_reported_with_what_it_lacks) {
  BOOST_TEST(contains(why_not(make("OLD_ABI")),
                      "built with version 0 of cultivar_contender.h, but this is version 1"));
  const std::string without = why_not(make("NO_LAUNCH"));
  BOOST_TEST(contains(without, "does not export cultivar_contender_launch (see"), without);
  BOOST_TEST(
      contains(why_not(make("OTHER_TASK")), "plain computes the task 'matmul', but this task is 'softmax'"));
  BOOST_TEST(
      contains(why_not(make("OTHER_TARGET")), "plain is for the target 'cuda', but this target is 'cpu'"));
  const std::string libc = why_not("/usr/lib/x86_64-linux-gnu/libm.so.6");
  BOOST_TEST(
      contains(libc, "the library is not a contender: it does not export cultivar_contender_describe, "),
      libc);
  const auto text = folder / "text.so";
  testing::write_text(text, "not a library");
  BOOST_TEST(contains(why_not(text), "text.so: the library does not load: "), why_not(text));
  BOOST_TEST(contains(why_not(folder / "none.so"), "none.so: the library does not load: "));
}

BOOST_AUTO_TEST_CASE(a_workload_that_it_does_not_take_is_no_failure_of_it) {
  BOOST_TEST(run("REFUSES") == "unsupported: 1000 columns alone, and this is 4");
  BOOST_TEST(run("", shape(3, 4, Dtype::f64)) == "unsupported: f32 alone, and this is f64");
  BOOST_TEST(run("FAILS_TO_PREPARE") == "contender_failed: its licence has run out");
}

BOOST_AUTO_TEST_CASE(its_own_words_tell_why_a_launch_failed) {
  BOOST_TEST(run("FAILS") == "contender_failed: no luck today");
}

BOOST_AUTO_TEST_CASE(its_outputs_and_buffers_are_looked_at_like_a_variants) {
  BOOST_TEST(run("WRONG") == "wrong");
  BOOST_TEST(run("LEAVES_SOME") == "unwritten");
  BOOST_TEST(contains(run("WRITES_BEHIND"), "guard_overwritten: it wrote"), run("WRITES_BEHIND"));
  BOOST_TEST(contains(run("CHANGES_INPUT"), "input_changed: the kernel changed the input 'x'"),
             run("CHANGES_INPUT"));
}

BOOST_AUTO_TEST_CASE(every_strided_tensor_of_a_task_is_described_to_it) {
  const Plan plan = contender_plan(softmax(), shape(3, 5));
  BOOST_REQUIRE(plan.buffers.size() == 2U);
  BOOST_TEST(plan.buffers[0].name == "x");
  BOOST_TEST(plan.buffers[0].bytes == 60U);
  BOOST_TEST((plan.buffers[1].use == PlannedBuffer::Use::output));
  BOOST_TEST(plan.kernels.empty());
}

BOOST_AUTO_TEST_SUITE_END()
