// SPDX-License-Identifier: Apache-2.0
// An export serves sizes that no code was built in for: it compiles its own source, checks the result and
// keeps it. One bundle is built for all cases; a program calls it for some numbers of columns.
// long: 30 s, engine/export
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "evaluators/system/hash.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/own_bundle.hpp"

using namespace cultivar::testing;
namespace fs = std::filesystem;
namespace utf = boost::unit_test;

namespace {

// The number of columns is compiled in. Wrong for 91 columns, and it crashes for 92 and does not compile
// for 93.
constexpr const char* kKernel = R"(/*--- cultivar
name: rms_norm_fixed
task: rms_norm
target: cpu
about: "Columns compiled in."
requires: "dtype == f32 && C <= 5000"
tunables:
  STEP: {values: [1, 2], default: 1}
specialize: [C]
launch:
  - kernel: rms_norm
    threads: num_cores
    args: [x, y, R, eps, thread, threads]
---*/
#include <cmath>

static_assert(C != 93, "not of 93 columns");

extern "C" void rms_norm(const float* x, float* y, int R, float eps, int thread, int threads) {
  if (C == 92) __builtin_trap();
  for (int r = thread; r < R; r += threads) {
    const float* in = x + long(r) * C;
    float* out = y + long(r) * C;
    double sum = 0;
    for (int c = 0; c < C; c += STEP) sum += double(in[c]) * in[c];
    const float scale = float(1.0 / std::sqrt(sum / C + double(eps))) * (C == 91 ? 1.01f : 1.0f);
    for (int c = 0; c < C; ++c) out[c] = in[c] * scale;
  }
}
)";

// For each word: a number of columns to call with, or "forbid", "small" (a cache of 64 KiB), "fallback",
// "fork", "pause" (a second).
constexpr const char* kAsks = R"(
#include <sys/wait.h>
#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <cstring>
#include "late/late.hpp"
int main(int, char** argv) {
  using namespace cultivar_export;
  SupplierOptions options;
  for (char** word = argv + 1; *word; ++word) {
    if (!std::strcmp(*word, "forbid")) options.compile = false;
    if (!std::strcmp(*word, "small")) options.most_bytes = 64 << 10;
  }
  RmsNorm kernel(1);
  kernel.use(make_supplier(options));
  for (char** word = argv + 1; *word; ++word) {
    if (!std::strcmp(*word, "fallback"))
      kernel.otherwise([](const RmsNormArguments& a) { for (long i = 0; i < a.R * a.C; ++i) a.y[i] = 7; });
    if (!std::strcmp(*word, "fork")) {
      if (const pid_t child = fork()) {
        int status = 0;
        waitpid(child, &status, 0);
        return status != 0;
      }
    }
    if (!std::strcmp(*word, "pause")) sleep(1);
    const long C = std::atol(*word);
    if (C == 0) continue;
    std::vector<float> memory(std::size_t(8 * C + 64));
    float* x = memory.data();
    while (reinterpret_cast<std::uintptr_t>(x) % 64) ++x;
    float* y = x + (4 * C + 15) / 16 * 16;
    double sum = 0;
    for (long i = 0; i < 3 * C; ++i) x[i] = float(i % 7) - 2;
    for (long i = 0; i < C; ++i) sum += double(x[i]) * x[i];
    try {
      kernel({.R = 3, .C = C, .x = x, .y = y});
      const double want = x[3] / std::sqrt(sum / double(C) + 1e-5);
      std::printf("%ld %s\n", C, std::abs(y[3] - want) < 1e-5 ? "right" : y[3] == 7 ? "fallback" : "wrong");
    } catch (const Unsupported& error) {
      std::printf("%ld refused: %s\n", C, error.what());
    }
  }
  const Calls calls = kernel.calls();
  std::printf("built in %d, supplied %d, fallback %d\n", int(calls.built_in), int(calls.supplied), int(calls.fallback));
  std::fflush(stdout);
  _exit(0);
}
)";

// Built once, by the first case.
struct Built {
  TemporaryFolder folder;
  Built() {
    write_own_task_for(folder.path(), "      - {R: 64, C: 100}\n      - {R: 33, C: 77}\n");
    export_own_kernel(folder.path(), kKernel, "C: 200-232 step 16");
    write_text(folder / "asks.cpp", kAsks);
    // Counts how often it is called.
    write_text(folder / "compiler",
               "#!/bin/sh\necho >> " + (folder / "compiled").string() + "\nexec g++ \"$@\"\n", true);
    const auto built =
        run_command({"sh", "-c",
                     "cmake -S bundle -B build && cmake --build build --target rms_norm_late && "
                     "g++ -std=c++20 -Ibundle asks.cpp build/librms_norm_late.a build/librms_norm.a -ldl "
                     "-pthread -o asks"},
                    {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
    BOOST_REQUIRE_MESSAGE(built.exit == 0, built.out + built.err);
  }
};

struct Bundle {
  static const Built& built() {
    static const Built one;
    return one;
  }
  TemporaryFolder own;
  fs::path cache = own / "cache";
  std::map<std::string, std::string> environment{
      {"CULTIVAR_EXPORT_CACHE", cache.string()},
      {"CULTIVAR_EXPORT_CXX", (built().folder / "compiler").string()}};

  Bundle() { fs::remove(built().folder / "compiled"); }
  CommandOptions options() const {
    return {.folder = own.path(), .environment = environment, .deadline_s = 120.0};
  }
  static std::vector<std::string> command(const std::string& words) {
    std::vector<std::string> all{(built().folder / "asks").string()};
    std::istringstream each(words);
    for (std::string word; each >> word;) all.push_back(word);
    return all;
  }
  std::string asked(const std::string& words) const {
    const auto result = run_command(command(words), options());
    BOOST_TEST(result.exit == 0, result.err);
    return result.out;
  }
  static std::size_t compilations() {
    return fs::exists(built().folder / "compiled") ? fs::file_size(built().folder / "compiled") : 0;
  }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> all;
    if (fs::exists(cache))
      for (const auto& entry : fs::directory_iterator(cache)) all.push_back(entry.path());
    return all;
  }
};

// A file system of its own at `place`.
struct Disk {
  fs::path place;
  bool mounted = false;
  explicit Disk(fs::path where, const char* size = "size=2m") : place(std::move(where)) {
    fs::create_directories(place);
    mounted = ::mount("tmpfs", place.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size) == 0;
  }
  ~Disk() {
    if (mounted) ::umount2(place.c_str(), MNT_DETACH);
  }
};
boost::test_tools::assertion_result a_disk_can_be_mounted(utf::test_unit_id) {
  const TemporaryFolder folder;
  boost::test_tools::assertion_result can(Disk(folder / "disk").mounted);
  can.message() << "no tmpfs can be mounted";
  return can;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(late, Bundle)

BOOST_AUTO_TEST_CASE(a_size_that_was_not_built_in_is_compiled_once_checked_and_kept) {
  // 100, 77 and 555 are the workloads', 216 is covered.
  BOOST_TEST(asked("100 216 101 101 3000") ==
             "100 right\n216 right\n101 right\n101 right\n3000 right\nbuilt in 2, supplied 3, fallback 0\n");
  BOOST_TEST(compilations() == 2U);
  BOOST_TEST(kept().size() == 2U);
  struct stat facts = {};
  BOOST_TEST_REQUIRE(::stat(cache.c_str(), &facts) == 0);
  BOOST_TEST((facts.st_mode & 0777) == 0700U);
  BOOST_TEST(asked("101 3000") == "101 right\n3000 right\nbuilt in 0, supplied 2, fallback 0\n");
  BOOST_TEST(compilations() == 2U);
}

BOOST_AUTO_TEST_CASE(the_manifest_says_what_is_accepted_and_built_in_with_checksums) {
  const fs::path bundle = built().folder / "bundle";
  const auto manifest = nlohmann::json::parse(read_text(bundle / "manifest.json"));
  const auto& kernel = manifest["kernels"][0];
  BOOST_TEST(kernel["requires"] == "dtype == f32 && C <= 5000");
  BOOST_TEST(kernel["compiled_in"] == nlohmann::json({"C"}));
  const auto built_in = kernel["built_in"].get<std::vector<std::string>>();
  for (const char* name : {"C100", "C77", "C555", "C200", "C216", "C232"})
    BOOST_TEST(std::count(built_in.begin(), built_in.end(), name) == 1, name);
  BOOST_TEST(std::count(built_in.begin(), built_in.end(), "C101") == 0);
  BOOST_TEST(kernel["license"].is_null());
  BOOST_TEST(manifest["predicate"]["alignment_bytes"] == 64);
  BOOST_TEST(kernel["speed"]["workloads"].size() == 2U);
  BOOST_TEST(kernel["speed"]["shapes"] == "listed");
  BOOST_TEST(manifest["sha256"].size() > 20U);
  for (const auto& [file, sum] : manifest["sha256"].items())
    BOOST_TEST(cultivar::sha256_hex(read_text(bundle / file)) == sum.get<std::string>(), file);
}

BOOST_AUTO_TEST_CASE(beyond_what_the_kernel_requires_nothing_is_compiled) {
  const std::string said = asked("6000 fallback 6000");
  BOOST_TEST(contains(said, "6000 refused: rms_norm: this kernel needs dtype == f32 && C <= 5000\n"), said);
  BOOST_TEST(contains(said, "6000 fallback\nbuilt in 0, supplied 0, fallback 1\n"), said);
  BOOST_TEST(compilations() == 0U);
}

BOOST_AUTO_TEST_CASE(code_that_does_not_pass_its_check_is_not_used) {
  const std::string said = asked("91 91 92 93");
  BOOST_TEST(contains(said, "91 refused: rms_norm: built for "), said);
  BOOST_TEST(
      contains(
          said,
          "C91 could not be added: it did not pass its check: FAILED: kernel rms_norm_fixed, specialization "
          "C91 on R5_C91 with ordinary values: y is off by "),
      said);
  BOOST_TEST(contains(said, "C92 could not be added: it did not pass its check: FAILED: "), said);
  BOOST_TEST(contains(said, "the kernel crashed with SIGILL"), said);
  BOOST_TEST(
      contains(said, "C93 could not be added: " + (built().folder / "compiler").string() + " failed: "),
      said);
  BOOST_TEST(contains(said, "not of 93 columns"), said);
  BOOST_TEST(compilations() == 3U);  // the second call with 91 columns was answered from memory
  BOOST_TEST(kept().empty());
}

BOOST_AUTO_TEST_CASE(eight_processes_that_start_at_once_compile_it_once) {
  std::vector<std::unique_ptr<RunningCommand>> all;
  for (int i = 0; i < 8; ++i) all.push_back(std::make_unique<RunningCommand>(command("102"), options()));
  for (const auto& each : all)
    BOOST_TEST(each->wait().out == "102 right\nbuilt in 0, supplied 1, fallback 0\n");
  BOOST_TEST(compilations() == 1U);
  BOOST_TEST(kept().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_damaged_entry_is_made_again) {
  asked("103");
  BOOST_TEST_REQUIRE(kept().size() == 1U);
  const fs::path entry = kept().front();
  const std::string whole = read_text(entry);
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string(), "x" + whole.substr(1)}) {
    write_text(entry, damaged);
    fs::permissions(entry, fs::perms::owner_read | fs::perms::owner_write);
    BOOST_TEST(contains(asked("103"), "103 right\n"));
    BOOST_TEST(read_text(entry) == whole);
  }
  BOOST_TEST(compilations() == 4U);
}

BOOST_AUTO_TEST_CASE(an_entry_under_the_name_of_another_is_made_again) {
  asked("103");
  BOOST_TEST_REQUIRE(kept().size() == 1U);
  const fs::path first = kept().front();
  asked("104");
  BOOST_TEST_REQUIRE(kept().size() == 2U);
  const fs::path second = kept()[kept()[0] == first ? 1 : 0];
  fs::copy_file(first, second, fs::copy_options::overwrite_existing);
  BOOST_TEST(asked("104") == "104 right\nbuilt in 0, supplied 1, fallback 0\n");
  BOOST_TEST(compilations() == 3U);
  BOOST_TEST(read_text(first) != read_text(second));
}

BOOST_AUTO_TEST_CASE(a_compiler_that_was_killed_is_asked_again) {
  const fs::path killed = own / "killed";
  write_text(killed,
             "#!/bin/sh\nif [ ! -e " + (own / "once").string() + " ]; then touch " + (own / "once").string() +
                 "; kill -9 $$; fi\nexec g++ \"$@\"\n",
             true);
  environment["CULTIVAR_EXPORT_CXX"] = killed.string();
  const std::string said = asked("108 108 pause 108");
  const std::string refusal = "108 refused: ";
  BOOST_TEST(said.starts_with(refusal), said);
  BOOST_TEST(contains(said, "C108 could not be added: " + killed.string() + " failed: "), said);
  BOOST_TEST(contains(said, "\n108 right\n"), said);
}

BOOST_AUTO_TEST_CASE(compiling_can_be_forbidden_and_what_is_kept_is_used_all_the_same) {
  asked("104");
  for (const bool by_variable : {true, false}) {
    if (by_variable) environment["CULTIVAR_EXPORT_COMPILE"] = "0";
    const std::string said = asked(by_variable ? "104 105" : "forbid 104 105");
    BOOST_TEST(contains(said, "104 right\n"), said);
    BOOST_TEST(contains(said, "compiling is forbidden by " +
                                  std::string(by_variable ? "CULTIVAR_EXPORT_COMPILE=0" : "an argument")),
               said);
    environment.erase("CULTIVAR_EXPORT_COMPILE");
  }
  BOOST_TEST(compilations() == 1U);
}

BOOST_AUTO_TEST_CASE(without_a_compiler_the_call_is_refused_with_a_sentence) {
  asked("106");
  environment["CULTIVAR_EXPORT_CXX"] = "/nowhere/c++";
  const std::string said = asked("106 107");
  BOOST_TEST(contains(said, "106 right\n"), said);
  BOOST_TEST(contains(said, "C107 could not be added: the compiler /nowhere/c++ cannot be started"), said);
}

BOOST_AUTO_TEST_CASE(the_cache_has_a_bound_and_a_folder_in_which_others_may_write_is_not_used) {
  for (int columns = 110; columns < 116; ++columns) asked("small " + std::to_string(columns));
  std::uintmax_t bytes = 0;
  for (const fs::path& each : kept()) bytes += fs::file_size(each);
  BOOST_TEST(bytes > 0U);
  BOOST_TEST(bytes <= 64U << 10);
  asked("small forbid 115");  // the last one is still there
  BOOST_TEST(contains(asked("small forbid 115"), "115 right\n"));

  const std::size_t before = kept().size();
  fs::permissions(cache, fs::perms::all);
  BOOST_TEST(contains(asked("116"), "116 right\n"));
  BOOST_TEST(kept().size() == before);
}

BOOST_AUTO_TEST_CASE(a_process_that_is_forked_after_the_first_call_serves_other_sizes) {
  const std::string said = asked("117 fork 117 118");
  BOOST_TEST(contains(said, "117 right\n117 right\n118 right\nbuilt in 0, supplied 3, fallback 0\n"), said);
}

BOOST_AUTO_TEST_CASE(a_full_disk_and_one_that_cannot_be_written_cost_only_time,
                     *utf::precondition(a_disk_can_be_mounted)) {
  {
    const Disk disk(cache);
    fs::permissions(cache, fs::perms::owner_all);
    write_text(cache / "others", std::string((2 << 20) - (8 << 10), 'x'));
    BOOST_TEST(contains(asked("119"), "119 right\n"));
    BOOST_TEST(kept().size() == 1U);  // nothing unfinished is left beside the others
  }
  const Disk disk(cache);
  fs::permissions(cache, fs::perms::owner_all);
  asked("120");
  BOOST_TEST_REQUIRE(
      ::mount(nullptr, cache.c_str(), nullptr, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0);
  BOOST_TEST(contains(asked("120 121"), "120 right\n121 right\n"));
  BOOST_TEST(compilations() == 3U);
  BOOST_TEST(kept().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
