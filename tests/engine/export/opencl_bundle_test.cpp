// SPDX-License-Identifier: Apache-2.0
// Whole opencl bundles, from a record to the built project, on this machine's first OpenCL device: what their
// launchers compute and refuse, and what their verifiers find. Skipped where OpenCL has no device.
// long: 150 s, engine/export, evaluators/launchers, evaluators/devices/opencl
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "engine/export/bundle.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/opencl_kernels.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = CULTIVAR_SOURCE_DIR;
const std::atomic<bool> kNever{false};

// Two kernels that share a workspace, a header, local memory, and a specialization for each number of
// columns.
constexpr const char* kKernel = R"~(/*--- cultivar
name: softmax_two_steps
task: softmax
target: opencl
license: MIT
about: "Sums of exponentials, then quotients."
requires: "dtype == f32"
tunables:
  ITEMS: {values: [16, 64], default: 16}
constraints: ["ITEMS <= group_max"]
headers: [largest.h]
specialize: [C]
workspace:
  tops: {bytes: "4 * R"}
  sums: {bytes: "4 * R", zero: true}
launch:
  - kernel: sum_rows
    global: ["R * ITEMS", 1, 1]
    local: [ITEMS, 1, 1]
    local_bytes: "4 * ITEMS"
    args: [x, tops, sums]
  - kernel: divide
    global: ["round_up(R * C, ITEMS)", 1, 1]
    local: [ITEMS, 1, 1]
    args: [x, y, tops, sums, {value: "R * C", type: i64}]
---*/
#include "largest.h"

__kernel void sum_rows(__global const float* x, __global float* tops, __global float* sums, __local float* parts) {
  const int me = get_local_id(0), row = get_group_id(0);
  x += (size_t)row * C;
  float top = -INFINITY;
  for (int c = me; c < C; c += ITEMS) top = fmax(top, x[c]);
  top = largest(top, parts);
  float sum = 0.0f;
  for (int c = me; c < C; c += ITEMS) sum += exp(x[c] - top);
  barrier(CLK_LOCAL_MEM_FENCE);
  parts[me] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (me != 0) return;
  for (int i = 0; i < ITEMS; ++i) sums[row] += parts[i];  // begins at 0
  tops[row] = top;
}

__kernel void divide(__global const float* x, __global float* y, __global const float* tops,
                     __global const float* sums, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  y[i] = exp(x[i] - tops[i / C]) / sums[i / C];
  // the end
}
)~";
constexpr const char* kHeader = R"(#ifndef LARGEST_H
#define LARGEST_H
float largest(float own, __local float* parts) {
  parts[get_local_id(0)] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < ITEMS; ++i) own = fmax(own, parts[i]);
  return own;
}
#endif
)";

struct Bundle {
  TemporaryFolder folder;
  fs::path bundle = folder / "bundle";
  Runtime runtime;

  // Of a run that evaluates nothing. `seeds`: separated by commas.
  void search(const std::string& seeds) {
    runtime.programs = CULTIVAR_BIN_DIR;
    runtime.cache = opencl_test::cache_folder;
    runtime.installation.tasks = kSource / "configs/tasks";
    Simulation simulation;
    simulation.facts = opencl_test::device().facts();
    runtime.evaluator = [simulation](const Config&, const fs::path&) {
      return std::make_unique<SimulatedEvaluator>(simulation);
    };
    const Config config = parse_config(
        "name: run\ntask: softmax\ntarget: opencl\nworkloads: cpu_quick\nseeds: [" + seeds +
            "]\nbudget: {evaluations: " + std::to_string(1 + std::count(seeds.begin(), seeds.end(), ',')) +
            "}\n",
        "test", folder.path(), {}, runtime.installation);
    const auto outcome = begin_search(config, folder / "run", runtime, {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    BOOST_REQUIRE_MESSAGE(outcome->best != 0, outcome->reason);
  }
  Expected<ExportReport> exported(const std::vector<std::string>& architectures = {},
                                  const KernelPortfolio* portfolio = nullptr) {
    const auto record = Record::open(folder / "run");
    BOOST_REQUIRE(record);
    return export_bundle({*record, 0, bundle, runtime, architectures, portfolio});
  }
  void two_steps() {
    write_text(folder / "two_steps.cl", kKernel);
    write_text(folder / "largest.h", kHeader);
    search((folder / "two_steps.cl").string());
    const auto report = exported();
    BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  }

  CommandResult shell(const std::string& line, std::map<std::string, std::string> environment = {}) {
    environment["CULTIVAR_EXPORT_CACHE"] = folder / "kept";
    environment["POCL_CACHE_DIR"] = folder / "pocl";
    return run_command({"sh", "-c", line},
                       {.folder = folder.path(), .environment = environment, .deadline_s = 400.0});
  }
  void build(const std::string& target = "all") {
    const auto built = shell("cmake -S bundle -B build && cmake --build build --target " + target);
    BOOST_REQUIRE_MESSAGE(built.exit == 0, built.out + built.err);
  }
  // A program that calls the bundle, with these warnings as errors.
  CommandResult called(const std::string& program, const std::string& libraries) {
    write_text(folder / "asks.cpp", program);
    const auto built = shell("g++ -std=c++20 -Wall -Wextra -Werror -Ibundle asks.cpp " + libraries +
                             " -lOpenCL -ldl -pthread -o asks");
    BOOST_REQUIRE_MESSAGE(built.exit == 0, built.err);
    return shell("./asks");
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    BOOST_REQUIRE_MESSAGE(contains(text, from), from);
    return text.replace(text.find(from), from.size(), to);
  }
  // Of the kernel with this in place of that.
  CommandResult verified(const std::string& from, const std::string& to) {
    write_text(bundle / "kernel.cl", replaced(kKernel, from, to));
    build("verify");
    return shell("build/verify --quick");
  }
  static std::string last_line(const CommandResult& result) {
    const std::string text = result.out.substr(0, result.out.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
};

// Each call says "right", "wrong" or why it was refused.
constexpr const char* kAsks = R"~(
#include "late/late.hpp"
#include "softmax.hpp"
#include <cstdio>
#include <new>

namespace cl = cultivar_export::opencl;
cl_context context_of(cl_command_queue queue) {
  cl_context context = nullptr;
  clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, nullptr);
  return context;
}
cl_mem made(cl_context context, std::size_t bytes, cl_mem_flags flags = CL_MEM_READ_WRITE, void* host = nullptr) {
  cl_int code = 0;
  const cl_mem memory = clCreateBuffer(context, flags, bytes, host, &code);
  cl::must(code, "a buffer");
  return memory;
}
cl_mem part(cl_mem of, std::size_t begin, std::size_t bytes) {
  const cl_buffer_region region{begin, bytes};
  cl_int code = 0;
  const cl_mem memory = clCreateSubBuffer(of, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  cl::must(code, "a part");
  return memory;
}
const char* result(cl_command_queue queue, cl_mem x, cl_mem y, std::int64_t R, std::int64_t C) {
  const std::size_t count = std::size_t(R * C), bytes = count * sizeof(float);
  std::vector<float> in(count), out(count);
  clEnqueueReadBuffer(queue, x, CL_TRUE, 0, bytes, in.data(), 0, nullptr, nullptr);
  clEnqueueReadBuffer(queue, y, CL_TRUE, 0, bytes, out.data(), 0, nullptr, nullptr);
  for (std::int64_t r = 0; r < R; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < C; ++c) sum += std::exp(double(in[std::size_t(r * C + c)]));
    for (std::int64_t c = 0; c < C; ++c) {
      const std::size_t i = std::size_t(r * C + c);
      const double right = std::exp(double(in[i])) / sum;
      if (!(std::abs(out[i] - right) <= 1e-5 * right)) return "wrong";
    }
  }
  return "right";
}
cl_mem filled(cl_command_queue queue, cl_mem memory, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = float(i % 17) * 0.25f - 2.0f;
  clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, count * sizeof(float), values.data(), 0, nullptr, nullptr);
  return memory;
}

int main() {
  using cultivar_export::Softmax;
  Softmax kernel;
  const cl_command_queue queue = kernel.queue();
  const cl_context context = context_of(queue);
  const std::int64_t R = 4, C = COLUMNS;
  const std::size_t count = std::size_t(R * C), bytes = count * sizeof(float);
  const cl_mem x = filled(queue, made(context, bytes), count), y = made(context, bytes);
  const auto say = [&](const char* what, Softmax& by, const cultivar_export::SoftmaxArguments& arguments) {
    try {
      by(arguments);
      clFinish(by.queue());
      std::printf("%s: %s\n", what, arguments.R == 0 ? "nothing" : result(by.queue(), arguments.x, arguments.y, arguments.R, arguments.C));
    } catch (const cultivar_export::Unsupported& error) {
      std::printf("%s: unsupported: %s\n", what, error.what());
    } catch (const std::invalid_argument& error) {
      std::printf("%s: refused: %s\n", what, error.what());
    }
  };
  std::printf("%zu %zu\n", Softmax::tensor_bytes({.R = R, .C = C})[0] / bytes, Softmax::tensor_bytes({.R = R, .C = C}).size());
  say("plain", kernel, {.R = R, .C = C, .x = x, .y = y});
  say("empty", kernel, {.R = 0, .C = C});
  say("zero", kernel, {.R = 0, .C = C, .x = x, .y = y});
  say("huge", kernel, {.R = std::int64_t(1) << 40, .C = C, .x = x, .y = y});
  say("null", kernel, {.R = R, .C = C, .x = x});
  say("same", kernel, {.R = R, .C = C, .x = x, .y = x});
  say("small", kernel, {.R = R + 1, .C = C, .x = x, .y = y});
  say("read-only", kernel, {.R = R, .C = C, .x = x, .y = made(context, bytes, CL_MEM_READ_ONLY)});
  say("write-only", kernel, {.R = R, .C = C, .x = made(context, bytes, CL_MEM_WRITE_ONLY), .y = y});
  const std::size_t step = (bytes + 4095) / 4096 * 4096;
  const cl_mem both = filled(queue, made(context, 3 * step), count);
  say("parts", kernel, {.R = R, .C = C, .x = part(both, 0, step), .y = part(both, step, step)});
  say("overlap", kernel, {.R = R, .C = C, .x = part(both, 0, 2 * step), .y = part(both, 1024, step)});
  say("part of it", kernel, {.R = R, .C = C, .x = both, .y = part(both, 0, step)});
  char* const host = static_cast<char*>(operator new(2 * step, std::align_val_t(4096)));
  const auto in_host = [&](std::size_t at) { return made(context, step, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, host + at); };
  say("host", kernel, {.R = R, .C = C, .x = x, .y = in_host(64)});
  say("odd host", kernel, {.R = R, .C = C, .x = x, .y = in_host(32)});
  say("host twice", kernel, {.R = R, .C = C, .x = filled(queue, in_host(64), count), .y = in_host(128)});
  cl_device_id device = nullptr;
  clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
  const cl_context other = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
  say("elsewhere", kernel, {.R = R, .C = C, .x = x, .y = made(other, bytes)});
  {
    Softmax there(clCreateCommandQueue(other, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, nullptr));
    const cl_mem in = filled(there.queue(), made(other, bytes), count), out = made(other, bytes);
    for (int i = 0; i < 20; ++i) there({.R = R, .C = C, .x = in, .y = out});
    say("any order", there, {.R = R, .C = C, .x = in, .y = out});
  }
  const cl_mem more = filled(queue, made(context, 4 * 53 * 3), 53 * 3), to = made(context, 4 * 53 * 3);
  say("late", kernel, {.R = 3, .C = 53, .x = more, .y = to});
  kernel.use(cultivar_export::make_supplier());
  say("supplied", kernel, {.R = 3, .C = 53, .x = more, .y = to});
  std::printf("%d %d\n", int(kernel.calls().supplied), kernel.accepts({.R = 3, .C = 53}));
}
)~";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(opencl_bundle, Bundle, *opencl_test::needs_opencl())

BOOST_AUTO_TEST_CASE(a_bundle_computes_in_buffers_of_the_caller_and_says_why_it_refuses_others) {
  two_steps();
  const auto facts = nlohmann::json::parse(read_text(bundle / "bundle.json"));
  BOOST_TEST(facts["target"] == "opencl");
  for (const char* file : {"kernel.cl", "largest.h", "softmax.hpp", "sources.cpp", "README.md", "TABLE.md",
                           "LICENSE", "manifest.json", "verify/reference.cpp"})
    BOOST_TEST(fs::exists(bundle / file), file);
  BOOST_TEST(!fs::exists(bundle / "pytorch"));
  // A device with less room for a group is asked before anything is queued, once by each function that asks;
  // so is what the manifest says of it.
  const std::string launcher = read_text(bundle / "softmax.hpp");
  const auto times = [&](const std::string& text) {
    int found = 0;
    for (std::size_t at = launcher.find(text); at != launcher.npos; at = launcher.find(text, at + 1)) ++found;
    return found;
  };
  BOOST_TEST(times("the constraint '4 * ITEMS <= local_bytes_max' is not satisfied") > 0);
  BOOST_TEST(times("the constraint '4 * ITEMS <= local_bytes_max' is not satisfied") ==
             times("the constraint 'ITEMS <= group_max' is not satisfied"));
  const std::string page = read_text(bundle / "README.md");
  BOOST_TEST(contains(page, "There is no operator for PyTorch in this bundle"));
  BOOST_TEST(!contains(page, "pytorch/"));
  BOOST_TEST(contains(page, "MIT"));
  build();
  const auto right = shell("build/verify --quick");
  BOOST_TEST(right.exit == 0, right.out + right.err);
  BOOST_TEST(last_line(right) == "verified: every checked row is within the task's bound");
  // As on a device with memory of its own.
  const auto copied = shell(
      "g++ -O1 -std=c++20 -DCULTIVAR_VERIFY_COPIES -DCXX_COMPILER='\"c++\"' -Ibundle/verify "
      "bundle/verify/verify.cpp build/libsoftmax_oracle.a build/libsoftmax.a -lOpenCL -ldl -pthread "
      "-o copies && ./copies --quick");
  BOOST_TEST(copied.exit == 0, copied.out + copied.err);

  const std::string first = facts["specialisations"].at(0);
  BOOST_REQUIRE(first.starts_with("C"));
  const auto asked = called(replaced(kAsks, "COLUMNS", first.substr(1)),
                            "build/libsoftmax_late.a build/libsoftmax.a -DCULTIVAR_VERIFIER_OF_softmax='\"" +
                                (folder / "build/verify").string() + "\"'");
  BOOST_TEST(asked.exit == 0, asked.out + asked.err);
  const std::string bytes = std::to_string(16 * std::stoi(first.substr(1)));
  for (const std::string& line :
       {std::string("1 2"),
        std::string("plain: right"),
        std::string("empty: nothing"),
        std::string("zero: unsupported: softmax: R is 0: it was not set, or a tensor is empty"),
        std::string("huge: unsupported: softmax: R is 1099511627776, but must be from 1 to 2147483647"),
        "null: refused: softmax: the tensor y is null: pass a buffer of " + bytes + " bytes",
        std::string("same: refused: softmax: the output y overlaps the input x: they are one buffer; give it "
                    "memory of its own"),
        "small: refused: softmax: the tensor x has " + bytes + " bytes, but these sizes need ",
        std::string(
            "read-only: refused: softmax: the tensor y is an output, but was made with CL_MEM_READ_ONLY"),
        std::string(
            "write-only: refused: softmax: the tensor x is an input, but was made with CL_MEM_WRITE_ONLY"),
        std::string("parts: right"),
        std::string("overlap: refused: softmax: the output y overlaps the input x: they are parts of the "
                    "same memory"),
        std::string("part of it: refused: softmax: the output y overlaps the input x"),
        std::string("host: right"),
        std::string("odd host: refused: softmax: the tensor y lies in memory of the host that begins at 0x"),
        std::string("host twice: refused: softmax: the output y overlaps the input x"),
        std::string("elsewhere: refused: softmax: the tensor y belongs to another context than the queue"),
        std::string("any order: right"),
        "late: unsupported: softmax: built for " + first,
        std::string("supplied: right"),
        std::string("1 0")})
    BOOST_TEST(contains("\n" + asked.out, "\n" + line), line << "\n" << asked.out);

  const auto elsewhere = shell("CULTIVAR_EXPORT_OPENCL_DEVICE=nowhere ./asks");
  BOOST_TEST(elsewhere.exit != 0);
  BOOST_TEST(
      contains(elsewhere.err, "no OpenCL device is called CULTIVAR_EXPORT_OPENCL_DEVICE=nowhere, but:"),
      elsewhere.err);
  BOOST_CHECK_THROW((void)exported({"sm_90a"}), InputError);
}

BOOST_AUTO_TEST_CASE(the_verifier_names_a_kernel_that_is_wrong) {
  two_steps();
  const auto off = verified("/ sums[i / C];", "/ sums[i / C] * (i % C == 3 ? 1.01f : 1.0f);");
  BOOST_TEST(off.exit == 1, off.out + off.err);
  BOOST_TEST(contains(last_line(off), "FAILED: kernel softmax_two_steps, specialization C"), last_line(off));
  BOOST_TEST(contains(last_line(off), "y is off by "), last_line(off));

  const auto beyond = verified("// the end", "if (i == 0) y[count] = 1;");
  BOOST_TEST(beyond.exit == 1, beyond.out + beyond.err);
  BOOST_TEST(contains(last_line(beyond), " behind the end of the tensor y"), last_line(beyond));

  const auto input = verified("// the end", "if (i == 0) ((__global float*)x)[0] += 1;");
  BOOST_TEST(contains(last_line(input), "the kernel changed its input x"), last_line(input));

  const auto far = verified("// the end", "if (i == 0) y[count + 4096] = 1;");
  BOOST_TEST(far.exit == 1, far.out + far.err);
  BOOST_TEST(contains(last_line(far), "crashed with SIGSEGV"), last_line(far));

  const auto broken = verified("// the end", "y[i] = nothing;");
  BOOST_TEST(broken.exit == 1, broken.out + broken.err);
  BOOST_TEST(contains(broken.out, "does not compile the kernel with -cl-std=CL1.2 -D "), broken.out);
  BOOST_TEST(contains(broken.out, "undeclared identifier 'nothing'"), broken.out);
}

BOOST_AUTO_TEST_CASE(several_kernels_behind_one_entry_serve_the_workloads_of_the_table) {
  search("opencl_naive, opencl_groups");
  const Task task = load_task(kSource / "configs/tasks/softmax");
  KernelPortfolio portfolio;
  portfolio.best = 1;
  for (const Workload& workload : task.workloads("cpu_quick")->workloads)
    portfolio.entries.push_back({workload.name, portfolio.entries.size() == 1 ? 2 : 1, 0.0, 0.0, 0.0});
  const auto report = exported({}, &portfolio);
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  BOOST_TEST(report->ids == (std::vector<IndividualId>{1, 2}), boost::test_tools::per_element());
  build();
  const auto verified = shell("build/verify --quick");
  BOOST_TEST(verified.exit == 0, verified.out + verified.err);
  BOOST_TEST(contains(verified.out, "portfolio of 2 kernels on "), verified.out);
}

BOOST_AUTO_TEST_SUITE_END()
