// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/controls.hpp"
#include "evaluators/check/oracle.hpp"

#include <stdlib.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "evaluators/judge/stages.hpp"
#include "support/words.hpp"

using cultivar::testing::words;
using namespace cultivar;
namespace fs = std::filesystem;

namespace {

// A folder for one test, and a task of the test's own in it.
class OwnTask {
 public:
  OwnTask() {
    std::string name = (fs::temp_directory_path() / "cultivar-controls-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "doubling");
  }
  ~OwnTask() { fs::remove_all(folder_); }

  Task write(const std::string& tolerance, const std::string& controls, const std::string& reference,
             const std::string& dtypes = "[f32]") {
    std::ofstream(folder_ / "doubling/task.yaml") << R"(name: doubling
summary: "y = f(x), row by row"
dimensions:
  R: {about: "rows"}
  C: {about: "columns"}
dtypes: )" << dtypes << R"(
tensors:
  x: {role: input, shape: [R, C], fill: {kind: normal}}
  y: {role: output, shape: [R, C]}
rows: [R]
cost: {flops: "R * C", bytes: "8 * R * C", report: bytes}
tolerance: )" << tolerance << "\n" << controls << R"(
checks:
  smoke: [{R: 8, C: 16}]
  sweep: [{R: 70, C: 20}]
  stress_shapes: [{R: 8, C: 16}]
  stress: {flat: {about: "all equal", x: {kind: constant, a: 1}}}
  edge: [{R: 3, C: 5}]
workload_sets:
  cpu_quick: {about: "one", dtype: f32, workloads: [{R: 1024, C: 1024}]}
)";
    std::ofstream(folder_ / "doubling/reference.cpp") << "#include \"cultivar_reference.hpp\"\n" << reference;
    return load_task(folder_ / "doubling");
  }
  fs::path cache() const { return folder_ / "cache"; }

 private:
  fs::path folder_;
};

const std::string kTight = "{factor: 2, floor_eps: 4, block_rows: 64}";
const std::string kDoubles = R"(
extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  for (std::int64_t c = 0; c < C; ++c) out[c] = 2 * args.tensor("x")[row * C + c];
}
extern "C" void control_triples(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  for (std::int64_t c = 0; c < C; ++c) out[c] = 3 * args.tensor("x")[row * C + c];
}
)";

// A model of the permitted roundings that allows `share` of every value.
std::string rounding_by(const std::string& share) {
  return kDoubles + R"(
extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  reference_row(args, row, out);
  for (std::int64_t c = 0; c < args.integer("C"); ++c) out[c] *= 1 - )" +
         share + ";\n}\n";
}

std::string controls_of(OwnTask& own, const std::string& tolerance, const std::string& controls,
                        const std::string& reference = kDoubles, const std::string& dtypes = "[f32]") {
  const Task task = own.write(tolerance, controls, reference, dtypes);
  const auto library = open_reference(task, own.cache());
  BOOST_REQUIRE_MESSAGE(library, words(library));
  const auto fit = check_controls(task, *library, target_named("cpu"), 2);
  return fit ? "" : fit.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(controls)

BOOST_AUTO_TEST_CASE(a_sound_task_refuses_every_control) {
  OwnTask own;
  BOOST_TEST(controls_of(own, kTight, "controls: {triples: {about: \"3 x\"}}") == "");
}

BOOST_AUTO_TEST_CASE(a_task_of_which_a_wrong_output_passes_is_refused_by_name) {
  OwnTask own;
  std::string nothing = kDoubles;
  nothing.replace(nothing.find("2 *"), 1, "0");
  const std::string said = controls_of(own, kTight, "controls: {}", nothing);
  BOOST_TEST(said.find("cannot detect wrong outputs") != std::string::npos, said);
  BOOST_TEST(said.find("zeros for y") != std::string::npos, said);
  BOOST_TEST(said.find("task.yaml") != std::string::npos, said);
}

// As relu is of positive numbers.
BOOST_AUTO_TEST_CASE(a_copy_of_an_input_may_be_right_on_plain_values_if_a_stress_case_refuses_it) {
  OwnTask own;
  std::string copies = kDoubles;
  copies.replace(copies.find("2 * args"), 3, "1 *");
  const std::string kTriples = "controls: {triples: {about: \"3 x\"}}";
  const std::string said = controls_of(own, kTight, kTriples, copies);
  BOOST_TEST(said.find("a copy of x for y") != std::string::npos, said);
  std::string but_of_ones = copies;
  but_of_ones.replace(but_of_ones.find("1 * args.tensor(\"x\")[row * C + c]"),
                      std::string("1 * args.tensor(\"x\")[row * C + c]").size(),
                      "args.tensor(\"x\")[row * C + c] == 1 ? 2 : args.tensor(\"x\")[row * C + c]");
  BOOST_TEST(controls_of(own, kTight, kTriples, but_of_ones) == "");
}

// One of the two forgets something: advice about tolerances would not help.
BOOST_AUTO_TEST_CASE(references_that_differ_by_more_than_roundings_are_said_to_with_the_first_place) {
  OwnTask own;
  const std::string forgets = kDoubles + R"(
extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  reference_row(args, row, out);
  if (row >= 2) out[3] += 4.0;
}
)";
  const std::string said = controls_of(own, kTight, "controls: {}", forgets);
  BOOST_TEST(said.find("reference_row and reference_row_rounded of task doubling differ by far more than "
                       "roundings on R8_C16_f32, first at y[R=2, C=3]: ") != std::string::npos,
             said);
  BOOST_TEST(said.find("reference.cpp") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(an_oracle_that_gives_only_nan_is_said_to_do_so) {
  OwnTask own;
  std::string reference = kDoubles;
  reference.replace(reference.find("2 *"), 1, "NAN");
  const std::string said = controls_of(own, kTight, "controls: {}", reference);
  BOOST_TEST(said.find("only NaN for y") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(legal_roundings_as_wide_as_fp8_is_refused) {
  OwnTask own;
  const std::string said = controls_of(own, "{factor: 8}", "controls: {}", rounding_by("0.015"));
  BOOST_TEST(said.find("rounded to fp8") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_task_control_that_passes_is_refused_by_name) {
  OwnTask own;
  std::string harmless = kDoubles;
  harmless.replace(harmless.find("3 * "), 4, "2 * ");
  const std::string said = controls_of(own, kTight, "controls: {triples: {about: \"3 x\"}}", harmless);
  BOOST_TEST(said.find("'triples'") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_control_that_reference_cpp_lacks_is_refused_with_its_line_and_what_to_write) {
  OwnTask own;
  const std::string said = controls_of(own, kTight,
                                       "controls:\n  triples: {about: \"3 x\"}\n  halves:\n"
                                       "    about: \"x / 2\"\n");
  BOOST_TEST(said.find("doubling/task.yaml:15: ") != std::string::npos, said);
  BOOST_TEST(said.find("void control_halves(") != std::string::npos, said);
  BOOST_TEST(said.find("doubling/reference.cpp") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_control_that_task_yaml_does_not_list_is_refused_with_its_line) {
  OwnTask own;
  const std::string said = controls_of(own, kTight, "controls: {}");
  BOOST_TEST(said.find("doubling/reference.cpp:7: control_triples is not listed in ") != std::string::npos,
             said);
  BOOST_TEST(said.find("add `triples: {about: ") != std::string::npos, said);
  std::string other = kDoubles;
  other.replace(other.find("extern \"C\" void control_"), 10, "// void control_old(\nstatic    ");
  BOOST_TEST(controls_of(own, kTight, "controls: {}", other) == "");  // nobody can call them
}

BOOST_AUTO_TEST_CASE(a_control_that_is_wrong_nowhere_is_refused) {
  OwnTask own;
  const std::string said =
      controls_of(own, kTight, "controls: {triples: {about: \"3 x\", when: \"C > 1000\"}}");
  BOOST_TEST(said.find("is not wrong on any check shape") != std::string::npos, said);
  BOOST_TEST(said.find("\"C > 1000\"") != std::string::npos, said);
  BOOST_TEST(said.find("task.yaml:13: ") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_control_may_be_of_one_dtype_but_of_one_that_the_task_has) {
  OwnTask own;
  const std::string controls = "controls: {triples: {about: \"3 x\", when: \"dtype == bf16\"}}";
  BOOST_TEST(controls_of(own, kTight, controls, kDoubles, "[f32, bf16]") == "");  // no bf16 on a CPU
  const std::string said = controls_of(own, kTight, controls);
  BOOST_TEST(said.find("holds on none, in none of the task's dtypes (f32): correct it") != std::string::npos,
             said);
}

BOOST_AUTO_TEST_CASE(a_reference_that_does_not_compile_says_what_the_compiler_said) {
  OwnTask own;
  const Task task = own.write(kTight, "controls: {}", "int broken(;\n");
  const auto library = open_reference(task, own.cache());
  BOOST_REQUIRE(!library);
  BOOST_TEST(library.error().message.find("reference.cpp:2") != std::string::npos, library.error().message);
}

BOOST_AUTO_TEST_CASE(a_reference_without_reference_row_is_refused) {
  OwnTask own;
  const Task task = own.write(kTight, "controls: {}", "int nothing;\n");
  const auto library = open_reference(task, own.cache());
  BOOST_REQUIRE(!library);
  BOOST_TEST(library.error().message.find("reference_row") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_tasks_that_come_with_cultivar_refuse_their_controls) {
  OwnTask own;
  for (const char* name : {"softmax", "attention_forward", "matmul", "cross_entropy", "rope", "row_reduce",
                           "rmsnorm_backward", "attention_backward", "attention_paged"}) {
    const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/" + name);
    const auto library = open_reference(task, own.cache());
    BOOST_REQUIRE_MESSAGE(library, words(library));
    const auto fit = check_controls(task, *library, target_named("cpu"), 2);
    BOOST_TEST(fit.has_value(), name << ": " << words(fit));
  }
}

BOOST_AUTO_TEST_CASE(fp8_keeps_three_bits_of_mantissa) {
  BOOST_TEST(round_to_fp8(1.0) == 1.0);
  BOOST_TEST(round_to_fp8(1.06) == 1.0);
  BOOST_TEST(round_to_fp8(1.07) == 1.125);
  BOOST_TEST(round_to_fp8(-1.07) == -1.125);
  BOOST_TEST(round_to_fp8(1000.0) == 448.0);
  BOOST_TEST(round_to_fp8(0.0) == 0.0);
}

BOOST_AUTO_TEST_CASE(large_shapes_are_checked_on_secret_blocks_and_both_ends) {
  OwnTask own;
  const Task task = own.write(kTight, "controls: {}", kDoubles);
  Workload w;
  w.name = "large";
  w.dtype = Dtype::f32;
  w.values = {{"R", 64000}, {"C", 100}};
  const RowLayout layout(task, w);
  const auto some = rows_to_check(task, w, layout, 6.4e5, 1),
             others = rows_to_check(task, w, layout, 6.4e5, 2);
  BOOST_TEST(some.size() == 6400U);
  BOOST_TEST(some.front() == 0);
  BOOST_TEST(some.back() == 63999);
  BOOST_TEST((some != others));
  BOOST_TEST(std::is_sorted(some.begin(), some.end()));
  BOOST_TEST(rows_to_check(task, w, layout, 1e9, 1).size() == 64000U);
}

BOOST_AUTO_TEST_SUITE_END()
