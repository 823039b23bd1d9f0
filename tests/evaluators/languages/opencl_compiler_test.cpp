// SPDX-License-Identifier: Apache-2.0
// What the OpenCL compiler accepts and refuses, and what it says.
// also without bubblewrap
// long: 60 s, evaluators/devices/opencl, evaluators/languages/opencl_c
#include "support/contains.hpp"
#include "support/opencl_kernels.hpp"

using namespace cultivar;
using namespace cultivar::opencl_test;
using cultivar::testing::contains;

namespace {

std::string with(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

CompileFailure refused(const std::string& source) {
  const auto variant = make_variant(source, softmax());
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().text()));
  const auto binary = compile(*variant);
  BOOST_REQUIRE(!binary);
  return binary.error();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(opencl_compiler, *needs_opencl())

BOOST_AUTO_TEST_CASE(equal_code_has_one_hash_whatever_the_comments_say) {
  const std::string source = kernel("honest_softmax.cl").source;
  const auto first = compile(*make_variant(source, softmax()));
  const auto second = compile(*make_variant(source + "// nothing\n", softmax()));
  const auto other = compile(*make_variant(with(source, "sum += exp", "sum += 1.0f * exp2"), softmax()));
  BOOST_REQUIRE((first && second && other));
  BOOST_TEST(fs::exists(first->path));
  BOOST_TEST(first->machine_code == second->machine_code);
  BOOST_TEST(first->machine_code != other->machine_code);
  BOOST_TEST(contains(compiler().info().identity, "-cl-std=CL1.2"));
}

BOOST_AUTO_TEST_CASE(an_error_has_the_line_of_the_variant) {
  const CompileFailure failure =
      refused(with(kernel("honest_softmax.cl").source, "if (row >= R) return;", "if (row >= rows) return;"));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST(contains(failure.reason, "variant.cl:16:"), failure.reason);
  BOOST_TEST(contains(failure.reason, "undeclared identifier 'rows'"), failure.reason);
}

BOOST_AUTO_TEST_CASE(parameters_must_match_the_arguments) {
  const std::string source = kernel("honest_softmax.cl").source;
  const CompileFailure type = refused(kernel("refused/other_parameters.cl").source);
  BOOST_TEST(contains(type.reason,
                      "parameter 4 of kernel 'softmax' is of the type float, but its argument is 'C' of "
                      "the type int"),
             type.reason);
  const CompileFailure count = refused(with(source, "args: [x, y, R, C]", "args: [x, y, R, C, R]"));
  BOOST_TEST(contains(count.reason, "has 4 parameters, but the manifest gives 5 arguments"), count.reason);
  const CompileFailure local =
      refused(with(source, "local: [16, 1, 1]", "local: [16, 1, 1]\n    local_bytes: 64"));
  BOOST_TEST(contains(local.reason, "4 arguments and local_bytes"), local.reason);
  const CompileFailure name = refused(with(source, "__kernel void softmax", "void softmax"));
  BOOST_TEST(contains(name.reason, "the source defines no kernel 'softmax'"), name.reason);
}

BOOST_AUTO_TEST_CASE(what_no_kernel_may_do_is_refused_before_it_runs) {
  const auto reason = [](const char* file, Stage stage) {
    const CompileFailure failure = refused(kernel(std::string("refused/") + file).source);
    BOOST_TEST((failure.stage == stage), file << ": " << failure.reason);
    return failure.reason;
  };
  BOOST_TEST(contains(reason("reads_clock.cl", Stage::screen), "reads a clock: rdtsc"));
  BOOST_TEST(contains(reason("makes_system_call.cl", Stage::screen), "calls the operating system: syscall"));
  BOOST_TEST(contains(reason("calls_a_library.cl", Stage::screen), "calls getpid"));
  BOOST_TEST(contains(reason("keeps_state_in_assembly.cl", Stage::screen),
                      "has variables that it can write (.bss, 8"));
  for (const char* file : {"hides_clock_behind_jump.cl", "hides_clock_in_macro.cl"})
    BOOST_TEST(contains(reason(file, Stage::screen), "inline assembly"), file);
  BOOST_TEST(contains(reason("prints.cl", Stage::screen), "prints"));
  BOOST_TEST(contains(reason("calls_others.cl", Stage::compile), "getpid"));
  BOOST_TEST(contains(reason("keeps_state.cl", Stage::compile), "constant address space"));
  const std::string reads =
      reason("reads_files.cl", Stage::compile);  // outside bubblewrap it exists, and cannot be opened
  BOOST_TEST((contains(reads, "/etc/passwd' file not found") || contains(reads, "Permission denied")), reads);
}

BOOST_AUTO_TEST_SUITE_END()
