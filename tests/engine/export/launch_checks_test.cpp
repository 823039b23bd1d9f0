// SPDX-License-Identifier: Apache-2.0
// What an exported launcher asks of each call, and what it says where a call does not have it. The launcher
// of a cpu kernel is built and called.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "engine/export/bundled_kernel.hpp"
#include "evaluators/devices/cpu/launcher.hpp"
#include "evaluators/judge/extents.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kTask = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/softmax";

// Calls with 3 x 40 floats that are right except for what each line changes, and says what comes of it.
constexpr const char* kCalls = R"(
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include "softmax.hpp"
int main() {
  using Arguments = cultivar_export::SoftmaxArguments;
  cultivar_export::Softmax kernel(2);
  float* const x = static_cast<float*>(std::aligned_alloc(4096, 8192));
  float* const y = x + 1024;
  for (int i = 0; i < 120; ++i) x[i] = float(i % 7) - 3, y[i] = 9;
  const auto call = [&](const char* name, const Arguments& arguments) {
    try {
      kernel(arguments);
      std::printf("%s: done, %s\n", name, std::abs(y[0] + y[39] - 9) < 1e-6 || y[0] == 9 ? "untouched" : "written");
    } catch (const std::invalid_argument& error) {
      std::printf("%s: %s\n", name, error.what());
    }
  };
  call("empty", {.R = 0, .C = 40});
  call("empty in one dimension", {.R = 3, .C = 0});
  call("forgotten", {.C = 40, .x = x, .y = y});
  call("negative", {.R = -1, .C = 40, .x = x, .y = y});
  call("null", {.R = 3, .C = 40, .x = x});
  call("misplaced", {.R = 3, .C = 40, .x = x, .y = y + 12});
  call("in place", {.R = 3, .C = 40, .x = x, .y = x});
  call("overlapping", {.R = 3, .C = 40, .x = x, .y = x + 112});
  call("side by side", {.R = 3, .C = 32, .x = x, .y = x + 96});
  for (int i = 0; i < 120; ++i) x[i] = float(i % 7) - 3;
  call("large", {.R = 1 << 18, .C = 2048, .x = x, .y = y});
  call("long", {.R = 1, .C = 65537, .x = x, .y = y});
  call("right", {.R = 3, .C = 40, .x = x, .y = y});
  std::printf("accepts %d %d %d %d %d\n", kernel.accepts({.R = 3, .C = 40}), kernel.accepts({.R = 0, .C = 40}),
              kernel.accepts({.R = 1 << 18, .C = 2047}), kernel.accepts({.R = 1 << 18, .C = 2048}),
              kernel.accepts({.R = (1 << 18) + 1, .C = 2048}));
  std::printf("specialization %s\n", kernel.specialisation_for({.R = 3, .C = 40}));
  for (const int cores : {-1, 1025})
    try {
      cultivar_export::Softmax other(cores);
    } catch (const std::invalid_argument& error) {
      std::printf("other: %s\n", error.what());
    }
  // The checks alone: the least of several measurements, on a busy machine as well.
  double least = 1e9;
  for (int round = 0; round < 200; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) {
      const cultivar_export::place_t tensors[] = {{"x", cultivar_export::address_of(x) + 64u * unsigned(i % 2), 480, false, nullptr},
                                                  {"y", cultivar_export::address_of(y), 480, true, nullptr}};
      cultivar_export::check_places(tensors, 64, "softmax", "");
      asm volatile("" ::: "memory");
    }
    least = std::min(least, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / 100);
  }
  std::printf("cost %.1f ns\n", least);
}
)";

// Numbers and indices of calls: each line says what comes of one.
constexpr const char* kNumbers = R"(
#include <sys/resource.h>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include "cross_entropy.hpp"
#include "rmsnorm.hpp"
template <class Kernel, class Arguments>
void call(const char* name, Kernel& kernel, const Arguments& arguments) {
  try {
    std::printf("%s, accepts %d %d: ", name, kernel.accepts(arguments), kernel.could_accept(arguments));
    kernel(arguments);
    std::printf("done\n");
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}
int main() {
  cultivar_export::Rmsnorm norm(2);
  alignas(64) static float x[64], w[64], y[64], loss[64], dlogits[64];
  const auto with_eps = [&](float eps) {
    return cultivar_export::RmsnormArguments{.R = 2, .C = 16, .eps = eps, .x = x, .w = w, .y = y};
  };
  call("least", norm, with_eps(1e-12f));
  call("greatest", norm, with_eps(1.0f));
  call("too small", norm, with_eps(0.0f));
  call("too great", norm, with_eps(1.5f));
  call("not a number", norm, with_eps(std::numeric_limits<float>::quiet_NaN()));
  cultivar_export::CrossEntropy entropy(2);
  alignas(64) static std::int64_t targets[64] = {3, -100};
  const auto with_targets = [&](std::int64_t first, int ignored) {
    targets[0] = first;
    return cultivar_export::CrossEntropyArguments{
        .R = 2, .V = 16, .ignore_index = ignored, .logits = x, .targets = targets, .loss = loss, .dlogits = dlogits};
  };
  call("inside", entropy, with_targets(15, -100));
  call("ignored", entropy, with_targets(-100, -100));
  call("behind", entropy, with_targets(16, -100));
  call("another one", entropy, with_targets(3, -7));
  rlimit room{};
  getrlimit(RLIMIT_AS, &room);
  room.rlim_cur = std::size_t(300) << 20;  // for the stacks of a few threads
  setrlimit(RLIMIT_AS, &room);
  try {
    cultivar_export::Rmsnorm many(500);
    std::printf("500 threads\n");
  } catch (const std::runtime_error& error) {
    std::printf("threads: %s\n", error.what());
  }
  call("afterwards", norm, with_eps(0.5f));
}
)";

struct Launcher {
  Task task = load_task(kTask);
  Variant naive = load_variant(kTask / "seeds/naive.cpp", task);
  Facts facts{{"num_cores", 2.0}, {"l1_bytes", 32768.0}, {"l2_bytes", 1048576.0}, {"l3_bytes", 33554432.0}};
  TemporaryFolder folder;

  // What the calls print, of a kernel that was checked with up to this many elements.
  std::string called(std::map<std::string, std::int64_t> most_elements) {
    const LauncherInput input{
        task, naive,           facts, task.workloads("cpu_quick")->workloads, "", std::move(most_elements),
        {},   {{"C", 65536.0}}};
    const auto header = cpu_launcher_header(input, specialisations(input));
    BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
    write_text(folder / "softmax.hpp", *header);
    write_text(folder / "calls.cpp", kCalls);
    const std::string program = (folder / "calls").string();
    const auto built =
        run_command({"g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror",
                     "-Dsoftmax=softmax__" + short_identity(naive) + "_any", "-x", "c++",
                     (kTask / "seeds/naive.cpp").string(), "-c", "-o", (folder / "kernel.o").string()},
                    {.folder = folder.path(), .environment = {}, .deadline_s = 200.0});
    BOOST_REQUIRE_MESSAGE(built.exit == 0, built.err);
    const auto linked = run_command(
        {"g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", (folder / "calls.cpp").string(),
         (folder / "kernel.o").string(), "-lpthread", "-o", program},
        {.folder = folder.path(), .environment = {}, .deadline_s = 200.0});
    BOOST_REQUIRE_MESSAGE(linked.exit == 0, linked.err);
    const auto result = run_command({program});
    BOOST_TEST(result.exit == 0, result.err);
    return result.out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(launch_checks, Launcher)

BOOST_AUTO_TEST_CASE(
    parameters_and_indices_beyond_what_was_checked_are_refused_and_so_are_threads_that_do_not_start) {
  const auto shell = [&](std::vector<std::string> command) {
    const auto result =
        run_command(std::move(command), {.folder = folder.path(), .environment = {}, .deadline_s = 200.0});
    BOOST_REQUIRE_MESSAGE(result.exit == 0, result.err);
    return result.out;
  };
  std::vector<std::string> link{"g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "numbers.cpp"};
  for (const std::string name : {"rmsnorm", "cross_entropy"}) {
    const Task own = load_task(kTask / ".." / name);
    const Variant kernel = load_variant(own.folder / "seeds/naive.cpp", own);
    LauncherInput input{own, kernel, facts, own.workloads("cpu_quick")->workloads};
    input.checked = checked_parameters(own);
    const auto header = cpu_launcher_header(input, specialisations(input));
    BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
    write_text(folder / (name + ".hpp"), *header);
    shell({"g++", "-std=c++20", "-O2", "-DLANES=4",
           "-D" + name + "=" + name + "__" + short_identity(kernel) + "_any", "-x", "c++",
           (own.folder / "seeds/naive.cpp").string(), "-c", "-o", (folder / (name + ".o")).string()});
    link.push_back(name + ".o");
  }
  write_text(folder / "numbers.cpp", kNumbers);
  link.insert(link.end(), {"-lpthread", "-o", "numbers"});
  shell(link);
  const std::string said = shell({(folder / "numbers").string()});
  const std::string eps = ", but kernels are checked only with values from 1e-12 to 1\n",
                    targets = "cross_entropy: targets[0] is ",
                    values = ", but its values must be from 0 to V - 1, or ignore_index\n";
  for (const std::string& line :
       {std::string("least, accepts 1 1: done\n"), std::string("greatest, accepts 1 1: done\n"),
        "too small, accepts 0 0: rmsnorm: eps is 0" + eps,
        "too great, accepts 0 0: rmsnorm: eps is 1.5" + eps,
        "not a number, accepts 0 0: rmsnorm: eps is nan" + eps, std::string("inside, accepts 1 1: done\n"),
        std::string("ignored, accepts 1 1: done\n"), "behind, accepts 1 1: " + targets + "16" + values,
        "another one, accepts 1 1: cross_entropy: targets[1] is -100" + values,
        std::string("threads: rmsnorm: thread "), std::string(" of 500 could not be started ("),
        std::string("afterwards, accepts 1 1: done\n")})
    BOOST_TEST(contains(said, line), line << " is not in\n" << said);
}

BOOST_AUTO_TEST_CASE(a_call_that_is_not_as_the_kernel_was_checked_is_answered_with_a_sentence) {
  const std::string said = called({});
  for (const char* line :
       {"empty: done, untouched\n", "empty in one dimension: done, untouched\n",
        "forgotten: softmax: R is 0: it was not set, or a tensor is empty, for which this kernel must not be "
        "called\n",
        "negative: softmax: R is -1, but must be from 1 to 2147483647\n",
        "other: softmax: cores is -1; it must be from 1 to 1024, or 0 for one per core of this machine\n",
        "other: softmax: cores is 1025; it must be from 1 to 1024, or 0 for one per core of this machine\n",
        "null: softmax: the tensor y is null: pass the address of its 480 bytes\n",
        "misplaced: softmax: the tensor y must be aligned to 64 bytes, but begins at 0x",
        ", 48 bytes behind such a place: allocate it with operator new(bytes, std::align_val_t(64))\n",
        "in place: softmax: the output y (480 bytes from 0x", ") overlaps the input x (480 bytes from 0x",
        "): give it memory of its own\n", "overlapping: softmax: the output y (480 bytes from 0x",
        "side by side: done, ", "right: done, written\n",
        "large: softmax: the tensor x would have 536870912 elements, but this kernel was checked only with "
        "up to "
        "536870911 in it: split the call\n",
        "long: softmax: C is 65537, but kernels are checked only up to 65536\n", "accepts 1 0 1 0 0\n",
        "specialization any\n"})
    BOOST_TEST(contains(said, line), line << " is not in\n" << said);
  const double cost = std::stod(said.substr(said.find("cost ") + 5));
  BOOST_TEST(cost < 100.0);  // a few ns on an idle machine
}

BOOST_AUTO_TEST_CASE(a_kernel_that_was_right_beyond_32_bits_accepts_as_much_as_it_was_checked_with) {
  const std::string said = called({{"x", 1 << 29}, {"y", 1 << 29}});
  BOOST_TEST(contains(said, "accepts 1 0 1 1 0\n"), said);
}

BOOST_AUTO_TEST_CASE(only_tensors_whose_rows_repeat_are_checked_beyond_32_bits) {
  constexpr std::int64_t kLargest = (std::int64_t{1} << 31) + 131072;
  const Workload& softmax = task.workloads("cpu_quick")->workloads.front();
  BOOST_TEST(most_elements(task, softmax, 0).at("x") == 536870911);  // of f32
  BOOST_TEST(most_elements(task, softmax, 1 << 20).at("x") == 536870911);
  BOOST_TEST(most_elements(task, softmax, kLargest).at("x") == kLargest);
  const Task linear = load_task(kTask / "../linear");  // the weights are no rows
  const auto of_linear = most_elements(linear, linear.workloads("cpu_quick")->workloads.front(), kLargest);
  BOOST_TEST(of_linear.at("x") == kLargest);
  BOOST_TEST(of_linear.at("w") == 536870911);
  BOOST_TEST(!nlohmann::json(Evaluation{}).contains("largest_elements"));
  Evaluation confirmed;
  confirmed.largest_elements = kLargest;
  BOOST_TEST(nlohmann::json(confirmed).get<Evaluation>().largest_elements == kLargest);
}

BOOST_AUTO_TEST_SUITE_END()
