// SPDX-License-Identifier: Apache-2.0
// A variant with headers on the cpu: compiled, its messages, and what it still cannot reach.
// also without bubblewrap
#include "evaluators/variant/source_files.hpp"
#include "support/contains.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cpu_test;
using cultivar::testing::contains;

namespace {

Variant with(const std::string& main, const std::vector<HeaderFile>& headers) {
  return by_hand(fold_source(main, headers), {"k"});
}
const std::string main_file =
    "#include \"factor.hpp\"\n\nextern \"C\" void k(float* y, int n) { for (int i = 0; i < n; ++i) y[i] *= "
    "factor(); }\n";

CompileFailure failure_of(const Variant& variant) {
  const auto binary = compiler().compile(variant, {}, 60.0);
  BOOST_REQUIRE(!binary);
  BOOST_TEST(binary.error().diagnostics.size() < 40000u);
  return binary.error();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_headers)

BOOST_AUTO_TEST_CASE(a_header_is_compiled_with_its_main_file_and_is_part_of_the_key) {
  const auto code = [](const std::string& factor) {
    return compiled(with(main_file, {{"factor.hpp", factor, 0}})).machine_code;
  };
  const std::string three = "#pragma once\ninline float factor() { return 3.0f; }\n";
  BOOST_TEST(code(three) != code("inline float factor() { return 5.0f; }\n"));
  BOOST_TEST(code(three) == code("// the same\n" + three));
  const std::string whole =
      "inline float factor() { return 3.0f; }\n" + main_file.substr(main_file.find('\n') + 1);
  BOOST_TEST(code(three) == compiled(by_hand(whole, {"k"})).machine_code);
  // Headers find each other.
  BOOST_TEST(code(three) ==
             compiled(with(main_file, {{"factor.hpp", "#include \"number.inl\"\n", 0},
                                       {"number.inl", three + "#include \"number.inl\"\n", 0}}))
                 .machine_code);
}

BOOST_AUTO_TEST_CASE(an_error_in_a_header_names_the_header_and_its_own_line) {
  const auto failure =
      failure_of(with(main_file, {{"factor.hpp", "\n\ninline float factor() { return three; }\n", 0}}));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST(failure.reason.starts_with("factor.hpp:3:"), failure.reason);
  BOOST_TEST(contains(failure.diagnostics, "variant.cpp:1"), failure.diagnostics);
  BOOST_TEST(!contains(failure.diagnostics, cache_folder.string()), failure.diagnostics);
  // Lines of the main file are counted as ever.
  const auto after =
      failure_of(with(main_file + "\nint x = y;\n", {{"factor.hpp", "inline float factor();\n", 0}}));
  BOOST_TEST(after.reason.starts_with("variant.cpp:5:"), after.reason);
}

BOOST_AUTO_TEST_CASE(a_header_reaches_no_other_file_and_a_circle_of_them_is_an_error) {
  for (const char* out : {"#include \"/etc/passwd\"\n", "#include \"../out/variant.so\"\n",
                          "#include \"../variant.cpp\"\n", "#include \"missing.hpp\"\n"}) {
    const auto failure = failure_of(with(main_file, {{"factor.hpp", out, 0}}));
    BOOST_TEST(failure.reason.starts_with("factor.hpp:1:"), failure.reason);
    BOOST_TEST(!contains(failure.diagnostics, "root:"), failure.diagnostics);
  }
  const auto circle = failure_of(with(
      main_file, {{"factor.hpp", "#include \"b.hpp\"\n", 0}, {"b.hpp", "#include \"factor.hpp\"\n", 0}}));
  BOOST_TEST((circle.stage == Stage::compile));
  BOOST_TEST(contains(circle.diagnostics, "nested"), circle.diagnostics);
  const auto probing =
      failure_of(with(main_file, {{"factor.hpp",
                                   "#if __has_include(\"/etc/passwd\") || __has_include(\"../out\")\n"
                                   "#error found\n#else\n#error hidden\n#endif\n",
                                   0}}));
  // Landlock, which does without bubblewrap, does not hide a file but refuses to open it: an error, too.
  BOOST_TEST((contains(probing.reason, "hidden") || contains(probing.reason, "Permission denied")),
             probing.reason);
  BOOST_TEST(!contains(probing.diagnostics, "found"), probing.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_writable_static_in_a_header_is_refused_like_any_other) {
  const auto failure = failure_of(
      with(main_file,
           {{"factor.hpp", "static float last;\ninline float factor() { return last += 1.0f; }\n", 0}}));
  BOOST_TEST((failure.stage == Stage::screen), failure.reason);
}

BOOST_AUTO_TEST_SUITE_END()
