// SPDX-License-Identifier: Apache-2.0
// What a reference.cpp may do, and that its results do not depend on where it is called.
// also without bubblewrap
#include "evaluators/check/oracle.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "evaluators/system/privileges.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
namespace fs = std::filesystem;

namespace {

const fs::path kSoftmax = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/softmax";
const fs::path kTestsCache = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";

// The task softmax with another reference.cpp.
struct OtherTask {
  fs::path folder = fs::temp_directory_path() / ("cultivar-oracle-" + std::to_string(::getpid()));
  fs::path task = folder / "softmax", cache = folder / "cache";
  OtherTask() {
    fs::create_directories(task);
    fs::copy_file(kSoftmax / "task.yaml", task / "task.yaml");
  }
  ~OtherTask() { fs::remove_all(folder); }

  Expected<TaskReference> build(const std::string& source) {
    std::ofstream(task / "reference.cpp") << source;
    return open_reference(load_task(task), cache);
  }
  // The reference is right but for what it does first.
  Expected<TaskReference> build_doing(const std::string& first, const std::string& before = "") {
    return build(
        "#include \"cultivar_reference.hpp\"\n#include <fcntl.h>\n#include <unistd.h>\n#include "
        "<csignal>\n#include <cstdlib>\n" +
        before +
        "extern \"C\" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {\n" +
        first +
        "\n  for (std::int64_t c = 0; c < args.integer(\"C\"); ++c) out[c] = static_cast<double>(row);\n}\n");
  }
  std::vector<double> rows(const TaskReference& library, int count = 3, int threads = 2) {
    const Task loaded = load_task(task);
    Workload workload;
    workload.dtype = Dtype::f32;
    workload.values = {{"R", std::max(8, count)}, {"C", 4}};
    const Inputs inputs = make_inputs(nullptr, loaded, workload, 1);
    const Oracle oracle(library, loaded, workload, threads);
    std::vector<std::int64_t> wanted;
    for (int i = 0; i < count; ++i) wanted.push_back(i);
    return oracle.rows(library.exact(), inputs.view(), wanted);
  }
  std::string trouble(const Expected<TaskReference>& library) {
    if (!library) return library.error().message;
    try {
      rows(*library);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(oracle, OtherTask)

// With as many threads as the cores of a server; each waits until all have taken memory, so each needs an
// arena.
BOOST_AUTO_TEST_CASE(many_threads_of_a_reference_may_take_memory) {
  constexpr int kThreads = 24;
  const auto library = build_doing(
      "static std::atomic<int> began{0};\n  std::vector<double> own(1000, 1.0);\n"
      "  for (began.fetch_add(1); began.load() < 24;) sched_yield();\n"
      "  if (own[static_cast<std::size_t>(row)] != 1.0) return;",
      "#include <atomic>\n#include <vector>\n#include <sched.h>\n");
  BOOST_REQUIRE_MESSAGE(library, library.error().message);
  const std::vector<double> computed = rows(*library, kThreads, kThreads);
  for (int i = 0; i < kThreads; ++i) BOOST_TEST(computed[static_cast<std::size_t>(i) * 4] == i);
}

BOOST_AUTO_TEST_CASE(a_foreign_reference_computes_the_same_as_one_that_is_called_here) {
  const Task own = load_task(kSoftmax);
  const auto here = open_reference(own, kTestsCache);
  BOOST_REQUIRE_MESSAGE(here, (here ? "" : here.error().message));
  BOOST_TEST(here->program().is_here());
  const auto apart = build("// another\n" + text_of(kSoftmax / "reference.cpp"));
  BOOST_REQUIRE_MESSAGE(apart, (apart ? "" : apart.error().message));
  BOOST_TEST(!apart->program().is_here());
  BOOST_TEST((apart->rounded() != nullptr) == (here->rounded() != nullptr));
  BOOST_TEST((apart->control("no_such_control") == nullptr));
  for (const Control& control : own.controls)
    BOOST_TEST((apart->control(control.name) != nullptr), control.name);

  Workload workload;
  workload.dtype = Dtype::f32;
  workload.values = {{"R", 300}, {"C", 100}};
  const Inputs inputs = make_inputs(nullptr, own, workload, 7);
  std::vector<std::int64_t> rows;
  for (int i = 0; i < 300; ++i) rows.push_back(i);
  for (int threads : {1, 2, 5}) {
    const Oracle one(*here, own, workload, threads), other(*apart, own, workload, threads);
    BOOST_TEST(
        (one.rows(here->exact(), inputs.view(), rows) == other.rows(apart->exact(), inputs.view(), rows)));
    BOOST_TEST((one.rows(here->rounded(), inputs.view(), rows) ==
                other.rows(apart->rounded(), inputs.view(), rows)));
  }
}

BOOST_AUTO_TEST_CASE(arithmetic_may_have_no_numbers_below_the_smallest_normal_one) {
  const fs::path silu = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/silu_mul";
  for (const char* file : {"task.yaml", "reference.cpp"})
    fs::copy_file(silu / file, task / file, fs::copy_options::overwrite_existing);
  const Task loaded = load_task(task);
  Workload workload;
  workload.dtype = Dtype::f32;
  workload.values = {{"R", 2}, {"C", 4}};
  const Inputs inputs =
      make_inputs(nullptr, loaded, workload, 1,
                  {{"gate", {Fill::Kind::constant, 0x1p-130}}, {"up", {Fill::Kind::constant, 0x1p20}}});
  const std::vector<std::int64_t> rows{0, 1};
  for (const char* before : {"", "// another\n"}) {  // called here, and apart
    const auto library = build(before + text_of(silu / "reference.cpp"));
    BOOST_REQUIRE_MESSAGE(library, (library ? "" : library.error().message));
    const Oracle oracle(*library, loaded, workload, 2);
    std::vector<double> usual(8), flushed(8), after(8);
    oracle.rows(library->rounded(), inputs.view(), rows, usual);
    oracle.rows(library->rounded(), inputs.view(), rows, flushed, kFlushing);
    oracle.rows(library->rounded(), inputs.view(), rows, after);
    BOOST_TEST(usual[0] == 0x1p-111);
#ifdef __SSE2__
    BOOST_TEST(flushed[0] == 0.0);
#endif
    BOOST_TEST((after == usual));
    // An exponential that overflows is no greatest finite number.
    const Inputs far =
        make_inputs(nullptr, loaded, workload, 1,
                    {{"gate", {Fill::Kind::constant, -500.0}}, {"up", {Fill::Kind::constant, 1e35}}});
    for (const int direction : {FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD}) {
      oracle.rows(library->rounded(), far.view(), rows, after, direction);
      BOOST_TEST(after[0] == 0.0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_reference_may_only_compute) {
  const fs::path file = folder / "written";
  const std::string quoted = '"' + file.string() + '"';
  for (const std::string& deed :
       {"if (open(" + quoted + ", O_CREAT | O_WRONLY, 0644) < 0) return;",
        std::string("if (fork() == 0) return;"), std::string("if (system(\"true\") != 0) return;"),
        "if (unlink(" + quoted + ") != 0) return;", std::string("kill(getppid(), 9);")}) {
    std::ofstream(file) << "mine";
    const std::string said = trouble(build_doing(deed));
    BOOST_TEST(contains(said, "reference_row of reference.cpp made a system call"), deed << ": " << said);
    BOOST_TEST(text_of(file) == "mine");
  }
  const std::string at_load = trouble(build_doing("", "static int early = fork();\n"));
  BOOST_TEST(contains(at_load, "made a system call"), at_load);
}

BOOST_AUTO_TEST_CASE(a_reference_reads_no_files_of_the_user) {
  const fs::path secret = folder / "secret";
  std::ofstream(secret) << "secret";
  const auto library = build_doing("if (open(\"" + secret.string() + "\", O_RDONLY) >= 0) std::abort();");
  BOOST_REQUIRE_MESSAGE(library, (library ? "" : library.error().message));
  if (FileAccessRules::make({}, {})) BOOST_TEST(trouble(library) == "none");
  const auto including = build("#include \"" + secret.string() + "\"\n");
  BOOST_REQUIRE(!including);
  BOOST_TEST(contains(including.error().message, "does not compile"), including.error().message);
  BOOST_TEST(!contains(including.error().message, "error: 'secret'"), including.error().message);
}

BOOST_AUTO_TEST_CASE(crashes_and_missing_functions_are_told) {
  BOOST_TEST(contains(trouble(build_doing("std::abort();")), "reference_row of reference.cpp"));
  BOOST_TEST(contains(trouble(build_doing("*reinterpret_cast<volatile int*>(8) = 1;")), "crashed: SIGSEGV"));
  BOOST_TEST(contains(trouble(build_doing("out[0] = args.tensor(\"nope\")[0];")),
                      "reference_row of reference.cpp failed: there is no input 'nope'; the task has "));
  for (const char* call : {"integer", "number"}) {
    const std::string said =
        trouble(build_doing("out[0] = static_cast<double>(args." + std::string(call) + "(\"CC\"));"));
    BOOST_TEST(contains(said, "there is no dimension, parameter or let 'CC'; the task has C, "), said);
  }
  const auto empty = build("#include \"cultivar_reference.hpp\"\n");
  BOOST_REQUIRE(!empty);
  BOOST_TEST(contains(empty.error().message, "does not define extern \"C\" void reference_row"),
             empty.error().message);
}

BOOST_AUTO_TEST_CASE(no_state_survives_a_call) {
  const auto library =
      build_doing("if (++calls > 1) { out[0] = -1.0; return; }", "static thread_local int calls = 0;\n");
  BOOST_REQUIRE_MESSAGE(library, (library ? "" : library.error().message));
  for (int i = 0; i < 3; ++i) BOOST_TEST(rows(*library, 1)[0] == 0.0);
}

BOOST_AUTO_TEST_CASE(a_file_beside_it_may_be_included_but_none_of_the_system_is_replaced) {
  std::ofstream(task / "cmath") << "#error replaced\n";
  std::ofstream(task / "beside.hpp") << "inline double beside() { return 5.0; }\n";
  const auto library = build_doing("out[0] = beside();", "#include \"beside.hpp\"\n");
  BOOST_TEST_REQUIRE(library.has_value(), (library ? "" : library.error().message));
}

BOOST_AUTO_TEST_SUITE_END()
