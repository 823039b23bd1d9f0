// SPDX-License-Identifier: Apache-2.0
// Where an OpenCL source or program has inline assembly.
#include "evaluators/devices/opencl/code/screen.hpp"

#include <boost/test/unit_test.hpp>

#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;

BOOST_AUTO_TEST_SUITE(opencl_assembly)

BOOST_AUTO_TEST_CASE(its_words_are_found_in_a_source_however_they_are_written) {
  const auto found = [](const char* text) { return assembly_in_source("variant.cl", text); };
  BOOST_TEST(found("int a;\n  asm(\"nop\");\n") == "variant.cl:2 has inline assembly (asm)");
  BOOST_TEST(contains(found("__asm__ volatile (\"nop\");"), "__asm__"));
  BOOST_TEST(contains(found("register int r __asm(\"rax\");"), ":1 has"));
  BOOST_TEST(contains(found("#define J as\\\nm\nJ(\"nop\");"), ":1 has"));
  BOOST_TEST(contains(found("\n_\\ \t\r\n_as?\?/\nm__(\"nop\");"), ":2 has"));
  BOOST_TEST(contains(found("printf(\"/*\"); asm(\"\"); printf(\"*/\");"), ":1 has"));
  BOOST_TEST(contains(found("char c = '\"'; asm(\"\");"), ":1 has"));
  BOOST_TEST(contains(found("/* it's */ asm(\"\");"), ":1 has"));
  for (const char* none : {"// asm\nint a;", "/* asm\n asm */ int a;", "int asm_, asm2, plasma, _asm;",
                           "printf(\"asm\");", "", "\\", "/*", "'", "// a \\\n asm"})
    BOOST_TEST(found(none) == "", none);
}

BOOST_AUTO_TEST_CASE(it_is_found_in_the_form_of_llvm) {
  BOOST_TEST(has_assembly("  %3 = call i64 asm sideeffect \"rdtsc\", \"={ax}\"() #2\n"));
  BOOST_TEST(has_assembly("module asm \".globl x\"\n"));
  BOOST_TEST(
      !has_assembly("@s = constant [6 x i8] c\" asm \\00\"\n  %1 = add i32 %0, 1\n!1 = !{!\" asm \"}\n"));
}

BOOST_AUTO_TEST_SUITE_END()
