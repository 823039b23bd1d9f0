// SPDX-License-Identifier: Apache-2.0
// The verifier of an exported cpu kernel: what it covers, and what it says of kernels that are changed so
// that they are wrong, crash or hang.
// long: 35 s, engine/export
#include <boost/test/unit_test.hpp>
#include <set>

#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/own_bundle.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

// Specialized for even and odd numbers of columns. Its first store faults where tensors are not aligned to 64
// bytes.
constexpr const char* kKernel = R"(/*--- cultivar
name: rms_norm_halves
task: rms_norm
target: cpu
about: "Apart for even and odd rows."
requires: "dtype == f32"
specialize: [odd]
let:
  odd: "C % 2"
launch:
  - kernel: rms_norm
    threads: num_cores
    args: [x, y, R, C, eps, thread, threads]
---*/
#include <cmath>
#include <cstdint>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps, int thread, int threads) {
  if (reinterpret_cast<std::uintptr_t>(x) % 64 != 0 || reinterpret_cast<std::uintptr_t>(y) % 64 != 0) __builtin_trap();
  for (int r = thread; r < R; r += threads) {
    const float* in = x + long(r) * C;
    float* out = y + long(r) * C;
    double sum = 0;
    for (int c = 0; c < C; ++c) sum += double(in[c]) * in[c];
    const float scale = float(1.0 / std::sqrt(sum / C + double(eps)));
    for (int c = 0; c < C; ++c) out[c] = in[c] * scale;
  }
  // the end
}
)";

struct Bundle {
  TemporaryFolder folder;
  fs::path bundle = folder / "bundle";

  Bundle() {
    write_own_task_for(folder.path(), "      - {R: 64, C: 100}\n      - {R: 33, C: 77}\n");
    const fs::path task = folder / "rms_norm";
    write_text(task / "scales.hpp", "#pragma once\n");
    write_text(task / "reference.cpp", "#include \"scales.hpp\"\n" + read_text(task / "reference.cpp"));
    write_text(task / "search.yaml", "notify: {webhook: \"https://example.com/hooks/of-a-friend\"}\n");
    write_text(task / "notes.txt", "nobody's business\n");
    write_text(task / "pytorch.py", "from the_norm import norm\n\ncompute = norm\n");
    write_text(task / "the_norm.py", "def norm(x, eps):\n    return x\n");
    export_own_kernel(folder.path(), kKernel);
    BOOST_REQUIRE(shell("cmake -S bundle -B build").exit == 0);
    write_text(bundle / "verify/runner.hpp",
               replaced(read_text(bundle / "verify/runner.hpp"), "run_seconds = 20", "run_seconds = 6"));
  }

  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    BOOST_REQUIRE_MESSAGE(contains(text, from), from);
    return text.replace(text.find(from), from.size(), to);
  }
  CommandResult shell(const std::string& line) {
    return run_command({"sh", "-c", line}, {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
  }
  // Of the kernel with this in place of that.
  CommandResult verified(const std::string& from, const std::string& to,
                         const std::string& options = "--quick") {
    write_text(bundle / "kernel.cpp", replaced(kKernel, from, to));
    const auto built = shell("cmake --build build --target verify");
    BOOST_REQUIRE_MESSAGE(built.exit == 0, built.out + built.err);
    return shell("build/verify " + options);
  }
  static std::string last_line(const CommandResult& result) {
    const std::string text = result.out.substr(0, result.out.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(verify, Bundle)

BOOST_AUTO_TEST_CASE(only_what_the_task_needs_is_kept_and_only_the_oracle_is_exported_to_verify) {
  const auto names = [](const fs::path& of) {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(of))
      if (entry.is_regular_file()) found.insert(entry.path().filename().string());
    return found;
  };
  const std::set<std::string> kept = names(folder / "run/task"), exported = names(bundle / "verify");
  for (const char* needed : {"reference.cpp", "scales.hpp"}) {
    BOOST_TEST(kept.contains(needed), needed);
    BOOST_TEST(exported.contains(needed), needed);
  }
  for (const char* needed : {"task.yaml", "pytorch.py", "the_norm.py"})
    BOOST_TEST(kept.contains(needed), needed);
  for (const char* other : {"search.yaml", "notes.txt"}) {
    BOOST_TEST(!kept.contains(other), other);
    BOOST_TEST(!exported.contains(other), other);
  }
  const auto mentioned = shell("grep -rl of-a-friend bundle run");
  BOOST_TEST(mentioned.out == "", mentioned.out);
}

BOOST_AUTO_TEST_CASE(every_specialization_runs_on_every_distribution_and_what_fails_is_named) {
  const auto right = verified("// the end", "// the end", "");
  BOOST_TEST(right.exit == 0, right.out + right.err);
  BOOST_TEST(contains(right.out, "2 of 2 specializations, 8 distributions, 48 runs on small shapes"),
             right.out);
  BOOST_TEST(contains(right.out, " on 1 of 1 stress distributions"), right.out);
  BOOST_TEST(contains(right.out, "3 of 3 workloads"), right.out);
  BOOST_TEST(last_line(right) == "verified: every checked row is within the task's bound");

  const auto crash = verified("// the end", "if (C % 2) *reinterpret_cast<volatile int*>(8) = 1;");
  BOOST_TEST(crash.exit == 1, crash.out + crash.err);
  BOOST_TEST(contains(last_line(crash), "FAILED: kernel rms_norm_halves, specialization odd1 on R"),
             last_line(crash));
  BOOST_TEST(contains(last_line(crash), " with ordinary values: the kernel crashed with SIGSEGV"),
             last_line(crash));
  BOOST_TEST(contains(crash.out, "1 of 2 specializations"),
             crash.out);  // the other one was checked all the same

  const auto beyond = verified("// the end", "if (thread == 0) y[long(R) * C] = 1;");
  BOOST_TEST(beyond.exit == 1, beyond.out + beyond.err);
  BOOST_TEST(contains(last_line(beyond), " behind the "), last_line(beyond));
  BOOST_TEST(contains(last_line(beyond), " tensor y"), last_line(beyond));

  const auto input = verified("// the end", "if (thread == 0) const_cast<float*>(x)[0] += 1;");
  BOOST_TEST(contains(last_line(input), "the kernel changed its input x"), last_line(input));

  const auto late =
      verified("double(in[c]) * in[c]", "(std::fabs(in[c]) > 100 ? 0.0 : double(in[c])) * in[c]");
  BOOST_TEST(late.exit == 1, late.out + late.err);
  BOOST_TEST(contains(last_line(late), "late_outlier in x values: y is off by "), last_line(late));
  BOOST_TEST(!contains(late.out, "ordinary"), late.out);

  const auto hang = verified("// the end", "while (C % 2 && thread == 0) asm volatile(\"\");");
  BOOST_TEST(hang.exit == 1, hang.out + hang.err);
  BOOST_TEST(contains(last_line(hang), "specialization odd1 on "), last_line(hang));
  BOOST_TEST(contains(last_line(hang), "the kernel did not end within 6 s"), last_line(hang));
}

BOOST_AUTO_TEST_SUITE_END()
