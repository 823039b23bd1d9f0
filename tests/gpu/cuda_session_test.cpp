// SPDX-License-Identifier: Apache-2.0
// Sessions on a real GPU: buffers, guards, poison, every kind of launch and argument, tensor maps, and time.
// runs alone
#include <algorithm>
#include <cmath>

#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/system/process.hpp"
#include "gpu/gpu_bench.hpp"

using namespace cultivar;
using namespace cultivar::gpu_test;

namespace {

constexpr const char* kCopy = R"(
extern "C" __global__ void copy(const unsigned* in, unsigned* out, long long count) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x)
    out[i] = in[i];
})";

Plan copying(std::size_t words, std::size_t blocks = 264) {
  Plan plan;
  plan.buffers = {{"in", words * 4, Use::input, false, 4}, {"out", words * 4, Use::output, false, 4}};
  plan.kernels = {kernel("copy", static_cast<unsigned>(blocks), 256,
                         {buffer(0), buffer(1), scalar(Dtype::i64, static_cast<double>(words))})};
  return plan;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_session, *needs_a_gpu())

BOOST_AUTO_TEST_CASE(the_device_reports_its_name_and_features) {
  for (const char* fact :
       {"num_sms", "smem_max", "l2_bytes", "registers_max", "threads_max", "compute_capability"})
    BOOST_TEST(device().facts().at(fact) > 0.0, fact);
  const Ceilings& ceilings = device().ceilings();
  BOOST_TEST_MESSAGE(device().info().description << "; " << device().info().isolation);
  BOOST_TEST_MESSAGE("ceilings: " << ceilings.flops * 1e-12 << " TFLOPS, " << ceilings.bytes_per_second * 1e-9
                                  << " GB/s, cached " << ceilings.cached_bytes_per_second * 1e-9
                                  << " GB/s, handshake " << ceilings.handshake_s * 1e6 << " us");
  BOOST_TEST(ceilings.bytes_per_second > 2e11);
  BOOST_TEST(ceilings.cached_bytes_per_second >= ceilings.bytes_per_second);
  BOOST_TEST(ceilings.handshake_s < 1e-4);
  if (device().facts().at("compute_capability") == 90.0) {
    BOOST_TEST(ceilings.flops > 5e14);
    BOOST_TEST(ceilings.flops < 1.2e15);
  }
}

// The test holds the memory as another program would: it is none of the device's own.
BOOST_AUTO_TEST_CASE(memory_that_others_hold_is_their_fault_and_a_plan_beyond_the_card_is_the_kernels) {
  const cuda::Driver& driver = **cuda::load_driver();
  std::size_t free = 0, total = 0;
  const auto opened_with = [&](std::size_t bytes) {
    const auto made = open(kCopy, copying(bytes / 8));
    return made ? std::string("opened") : std::string(name_of(made.error().kind));
  };
  BOOST_REQUIRE(driver.MemGetInfo(&free, &total) == 0);
  BOOST_TEST(opened_with(total + (std::size_t{1} << 30)) == "out_of_memory");
  BOOST_REQUIRE(driver.MemGetInfo(&free, &total) == 0);  // without what an earlier session left
  cuda::Address held = 0;
  BOOST_REQUIRE(driver.MemAlloc(&held, free / 10 * 7) == 0);
  BOOST_TEST(opened_with(total / 2) == "memory_held");
  BOOST_TEST(opened_with(total + (std::size_t{1} << 30)) == "out_of_memory");
  driver.MemFree(held);
  BOOST_TEST(opened_with(total / 2) == "opened");
}

BOOST_AUTO_TEST_CASE(every_type_of_argument_arrives_as_it_was_meant) {
  Plan plan;
  plan.buffers = {{"out", 12 * 8, Use::output, false, 8}};
  plan.kernels = {
      kernel("k", 1, 1,
             {buffer(0), scalar(Dtype::f64, -1.5), scalar(Dtype::f32, 0.25), scalar(Dtype::i64, -4e15),
              scalar(Dtype::i32, -70000), scalar(Dtype::i16, -300), scalar(Dtype::i8, -100),
              scalar(Dtype::u64, 5e15), scalar(Dtype::u32, 4e9), scalar(Dtype::u16, 60000),
              scalar(Dtype::u8, 200), scalar(Dtype::f16, 1.5), scalar(Dtype::bf16, 1.5)})};
  auto one = session(R"(#include <cuda_bf16.h>
#include <cuda_fp16.h>
    extern "C" __global__ void k(double* out, double a, float b, long long c, int d, short e, signed char f,
                                 unsigned long long g, unsigned h, unsigned short i, unsigned char j, __half k,
                                 __nv_bfloat16 l) {
      const double all[] = {a, b, (double)c, (double)d, (double)e, (double)f, (double)g, (double)h, (double)i, (double)j,
                            (double)__half2float(k), (double)__bfloat162float(l)};
      for (int n = 0; n < 12; ++n) out[n] = all[n];
    })",
                     plan);
  Outputs outputs(1);
  const auto ran = one->run({}, outputs, {});
  BOOST_REQUIRE_MESSAGE(ran, words(ran));
  const std::vector<double> right{-1.5, 0.25, -4e15, -70000, -300, -100, 5e15, 4e9, 60000, 200, 1.5, 1.5};
  BOOST_TEST(values<double>(outputs[0]) == right, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_window_of_a_stretch_is_the_input_wherever_it_begins) {
  const std::vector<std::uint32_t> stretch = counting(40'000);
  const std::vector<std::byte> whole = bytes(stretch);
  auto one = session(kCopy, copying(30'001));
  for (const std::size_t offset : {0, 1, 2, 3, 4, 6, 15, 16, 17, 5000, 39'000}) {
    RunInput input;
    input.whole = whole;
    input.stretch = 77;
    input.bytes = std::span<const std::byte>(whole).subspan(offset, 30'001 * 4);
    Outputs outputs(1);
    const auto ran = one->run(RunInputs(std::vector<RunInput>{input}), outputs, {.poison_seed = offset});
    BOOST_REQUIRE_MESSAGE(ran, words(ran));
    BOOST_TEST(std::equal(input.bytes.begin(), input.bytes.end(), outputs[0].begin(), outputs[0].end()),
               offset);
    BOOST_TEST(one->unwritten_elements() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(only_the_elements_that_are_wanted_come_back) {
  auto one = session(kCopy, copying(10'000));
  const std::vector<std::uint32_t> in = counting(10'000);
  Outputs outputs{std::vector<std::byte>(40'000)};
  const std::vector<std::vector<ElementRange>> wanted{{{3, 2}, {77, 1}, {9'999, 1}}};
  RunOptions options;
  options.wanted = wanted;
  const auto ran = one->run({{bytes(in)}}, outputs, options);
  BOOST_REQUIRE_MESSAGE(ran, words(ran));
  const auto out = values<std::uint32_t>(outputs[0]);
  for (const std::size_t e : {3, 4, 77, 9'999}) BOOST_TEST(out[e] == in[e]);
  BOOST_TEST(out[5] == 0U);
  BOOST_TEST(out[9'998] == 0U);
}

BOOST_AUTO_TEST_CASE(long_ranges_that_are_wanted_come_back_and_nothing_else) {
  auto one = session(kCopy, copying(10'000));
  const std::vector<std::uint32_t> in = counting(10'000);
  Outputs outputs{std::vector<std::byte>(40'000)};
  const std::vector<std::vector<ElementRange>> wanted{{{100, 2'000}, {5'000, 5'000}}};
  RunOptions options;
  options.wanted = wanted;
  const auto ran = one->run({{bytes(in)}}, outputs, options);
  BOOST_REQUIRE_MESSAGE(ran, words(ran));
  const auto out = values<std::uint32_t>(outputs[0]);
  for (std::size_t e = 0; e < 10'000; ++e)
    BOOST_TEST_REQUIRE(out[e] == ((e >= 100 && e < 2'100) || e >= 5'000 ? in[e] : 0U), e);
}

BOOST_AUTO_TEST_CASE(what_is_not_written_holds_finite_poison_that_differs_each_time) {
  Plan plan;
  plan.buffers = {{"out", 8192, Use::output, false, 4}, {"scratch", 4096, Use::workspace, false}};
  plan.kernels = {kernel("k", 1, 1, {buffer(0), buffer(1)})};
  auto one = session(R"(extern "C" __global__ void k(float* out, float* scratch) {
                          for (int i = 0; i < 512; ++i) out[i] = scratch[i]; })",
                     plan);
  Outputs first(1), second(1);
  BOOST_REQUIRE(one->run({}, first, {.poison_seed = 1}));
  BOOST_TEST(one->unwritten_elements() == (8192U - 2048U) / 8U);
  BOOST_REQUIRE(one->run({}, second, {.poison_seed = 2}));
  std::size_t equal = 0;
  for (std::size_t i = 0; i < 8192; ++i) equal += first[0][i] == second[0][i];
  BOOST_TEST(equal < 200U);
  for (const float value : values<float>(first[0])) BOOST_TEST_REQUIRE(std::isfinite(value));
}

BOOST_AUTO_TEST_CASE(a_zeroed_workspace_is_zero_in_every_run_and_kernels_run_in_order) {
  Plan plan;
  plan.buffers = {{"out", 4096 * 4, Use::output, false, 4}, {"ticket", 4, Use::workspace, true}};
  plan.kernels = {kernel("count", 64, 64, {buffer(1)}), kernel("tell", 16, 256, {buffer(0), buffer(1)})};
  plan.kernels[1].launch.set("programmatic_dependent", {1});
  auto one = session(R"(extern "C" __global__ void count(unsigned* ticket) { atomicAdd(ticket, 1u); }
                        extern "C" __global__ void tell(unsigned* out, const unsigned* ticket) {
                          asm volatile("griddepcontrol.wait;" ::: "memory");
                          out[blockIdx.x * 256 + threadIdx.x] = *ticket; })",
                     plan);
  for (const bool timed : {false, false, true, true}) {
    Outputs outputs(1);
    const auto ran = one->run({}, outputs, {.timed = timed, .poison_seed = 3});
    BOOST_REQUIRE_MESSAGE(ran, words(ran));
    for (const std::uint32_t value : values<std::uint32_t>(outputs[0])) BOOST_TEST_REQUIRE(value == 4096U);
  }
}

BOOST_AUTO_TEST_CASE(addresses_change_and_all_of_a_plans_shared_memory_can_be_had) {
  Plan plan;
  plan.buffers = {{"out", 16, Use::output, false, 8}};
  plan.kernels = {kernel("k", 1, 32, {buffer(0)})};
  plan.kernels[0].launch.set("shared", {static_cast<std::int64_t>(device().facts().at("smem_max"))});
  auto one = session(R"(extern "C" __global__ void k(unsigned long long* out) {
                          extern __shared__ unsigned last[];
                          unsigned size;
                          asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
                          last[size / 4 - 1] = 7;
                          if (threadIdx.x == 0) out[0] = (unsigned long long)out, out[1] = size + last[size / 4 - 1]; })",
                     plan);
  std::vector<std::uint64_t> seen;
  for (std::uint64_t run = 0; run < 12; ++run) {
    Outputs outputs(1);
    const auto ran = one->run({}, outputs, {.poison_seed = run});
    BOOST_REQUIRE_MESSAGE(ran, words(ran));
    const auto told = values<std::uint64_t>(outputs[0]);
    BOOST_TEST(told[0] % 256 == 0U);
    BOOST_TEST(static_cast<double>(told[1]) == device().facts().at("smem_max") + 7);
    if (std::find(seen.begin(), seen.end(), told[0]) == seen.end()) seen.push_back(told[0]);
  }
  BOOST_TEST(seen.size() >= 4U);
}

BOOST_AUTO_TEST_CASE(clusters_and_cooperative_grids_are_launched_as_such) {
  if (device().facts().at("compute_capability") < 90.0) return;
  Plan plan;
  plan.buffers = {{"out", 64 * 4, Use::output, false, 4}};
  plan.kernels = {kernel("k", 64, 32, {buffer(0)})};
  for (const unsigned blocks : {2U, 8U, 16U}) {
    plan.kernels[0].launch.set("cluster", {blocks, 1, 1});
    auto one = session(R"(extern "C" __global__ void k(unsigned* out) {
                            unsigned count;
                            asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
                            asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
                            if (threadIdx.x == 0) out[blockIdx.x] = count; })",
                       plan);
    Outputs outputs(1);
    const auto ran = one->run({}, outputs, {});
    BOOST_REQUIRE_MESSAGE(ran, words(ran));
    for (const std::uint32_t value : values<std::uint32_t>(outputs[0])) BOOST_TEST_REQUIRE(value == blocks);
  }

  const auto sms = static_cast<unsigned>(device().facts().at("num_sms"));
  Plan grid;
  grid.buffers = {{"out", sms * 4, Use::output, false, 4}, {"arrived", 4, Use::workspace, true}};
  grid.kernels = {kernel("k", sms, 32, {buffer(0), buffer(1)})};
  grid.kernels[0].launch.set("cooperative", {1});
  auto all = session(R"(extern "C" __global__ void k(unsigned* out, volatile unsigned* arrived) {
                          if (threadIdx.x != 0) return;
                          atomicAdd((unsigned*)arrived, 1u);
                          while (*arrived != gridDim.x) {}
                          out[blockIdx.x] = *arrived; })",
                     grid);
  Outputs outputs(1);
  const auto ran = all->run({}, outputs, {});
  BOOST_REQUIRE_MESSAGE(ran, words(ran));
  for (const std::uint32_t value : values<std::uint32_t>(outputs[0])) BOOST_TEST_REQUIRE(value == sms);

  grid.kernels[0].launch.set("grid", {sms * 64 * 32, 1, 1});
  auto too_many = open(R"(extern "C" __global__ void k(unsigned* out, volatile unsigned* arrived) {
                            out[blockIdx.x % 8] = *arrived; })",
                       grid);
  BOOST_REQUIRE(!too_many);
  BOOST_TEST(too_many.error().detail.find("the cooperative grid has") != std::string::npos,
             too_many.error().detail);
  BOOST_TEST(name_of(too_many.error().kind) == "launch_failed");
  BOOST_TEST(device().usable());
}

BOOST_AUTO_TEST_CASE(what_the_driver_would_reject_with_only_a_code_is_rejected_with_a_message_on_open) {
  const auto refusal = [](const std::string& source, const Plan& plan) {
    const auto made = open(source, plan);
    BOOST_REQUIRE(!made);
    return std::string(name_of(made.error().kind)) + ": " + made.error().detail;
  };
  const auto says = [](const std::string& text, const std::string& part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  Plan plan = copying(1000);
  plan.kernels[0].launch.set("block", {512, 1, 1});
  const std::string bounded = R"(
extern "C" __global__ void __launch_bounds__(128) copy(const unsigned* in, unsigned* out, long long count) {
  if (threadIdx.x < count) out[threadIdx.x] = in[threadIdx.x];
})";
  says(refusal(bounded, plan),
       "launch_failed: kernel 'copy': the block has 512 threads, but __launch_bounds__");
  plan = copying(1000);
  plan.kernels[0].args.pop_back();
  says(refusal(kCopy, plan), "the kernel has 3 parameters, but the manifest gives 2 arguments");
  plan = copying(1000);
  plan.kernels[0].launch.set("shared", {static_cast<std::int64_t>(device().facts().at("smem_max")) + 16});
  says(refusal(kCopy, plan), "bytes of shared memory");
  plan = copying(1000);
  plan.kernels[0].kernel = "kopy";
  says(refusal(kCopy, plan), "kernel 'kopy' is not in the machine code");
  BOOST_TEST(device().usable());
}

BOOST_AUTO_TEST_CASE(a_tensor_map_brings_tiles_and_fills_what_is_outside) {
  if (device().facts().at("compute_capability") < 90.0) return;
  constexpr std::uint64_t width = 96, height = 20;  // the box reaches beyond both
  Plan plan;
  plan.buffers = {{"in", width * height * 4, Use::input, false, 4},
                  {"out", 128 * 32 * 4, Use::output, false, 4}};
  PlannedTensorMap tile;
  tile.name = "tile";
  tile.dtype = Dtype::f32;
  tile.sizes = {width, height};
  tile.stride_bytes = {width * 4};
  tile.box = {128, 32};
  tile.element_strides = {1, 1};
  tile.swizzle = tile.interleave = tile.l2_promotion = "none";
  tile.out_of_bounds = "zero";
  plan.tensor_maps = {tile};
  plan.kernels = {kernel("k", 1, 128, {map(0), buffer(1)})};
  plan.kernels[0].launch.set("shared", {128 * 32 * 4});
  auto one = session(R"(struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap tile, float* out) {
      extern __shared__ __align__(128) float box[];
      __shared__ __align__(8) unsigned long long barrier;
      const unsigned to = (unsigned)__cvta_generic_to_shared(box), at = (unsigned)__cvta_generic_to_shared(&barrier);
      if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(at) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(128 * 32 * 4) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(to), "l"(&tile), "r"(0), "r"(0), "r"(at) : "memory");
      }
      __syncthreads();
      unsigned done = 0;
      while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
      for (int i = threadIdx.x; i < 128 * 32; i += 128) out[i] = box[i];
    })",
                     plan);
  std::vector<float> in(width * height);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  for (std::uint64_t seed : {1, 2, 3}) {
    Outputs outputs(1);
    const auto ran = one->run({{bytes(in)}}, outputs, {.poison_seed = seed});
    BOOST_REQUIRE_MESSAGE(ran, words(ran));
    const auto out = values<float>(outputs[0]);
    for (std::size_t y = 0; y < 32; ++y)
      for (std::size_t x = 0; x < 128; ++x)
        BOOST_TEST_REQUIRE(out[y * 128 + x] == (x < width && y < height ? in[y * width + x] : 0.0f));
  }
}

BOOST_AUTO_TEST_CASE(writes_outside_and_into_inputs_are_found_and_placed) {
  struct Case {
    const char* statement;
    Fault::Kind kind;
    const char* words;
  };
  for (const Case& c :
       {Case{"out[1000] = 0;", Fault::Kind::guard_overwritten, "0 bytes past the end of 'out'"},
        Case{"out[1019] = 0;", Fault::Kind::guard_overwritten, "76 bytes past the end of 'out'"},
        Case{"out[-2] = 0;", Fault::Kind::guard_overwritten, "bytes before the start of 'out'"},
        Case{"((unsigned*)in)[3] += 1;", Fault::Kind::input_changed, "'in'"}}) {
    auto one = session(
        std::string(R"(extern "C" __global__ void copy(const unsigned* in, unsigned* out, long long count) {
                         for (long long i = threadIdx.x; i < count; i += 256) out[i] = in[i];
                         if (threadIdx.x == 0) { )") +
            c.statement + " } }",
        copying(1000, 1));
    Outputs outputs(1);
    const auto ran = one->run({{bytes(counting(1000))}}, outputs, {.poison_seed = 9});
    BOOST_REQUIRE(!ran);
    BOOST_TEST(name_of(ran.error().kind) == name_of(c.kind), words(ran));
    BOOST_TEST(ran.error().detail.find(c.words) != std::string::npos, words(ran));
    BOOST_TEST(!one->run({{bytes(counting(1000))}}, outputs, {}));  // dead
  }
  BOOST_TEST(device().usable());
}

BOOST_AUTO_TEST_CASE(a_copy_is_timed_as_fast_as_memory_is_and_never_out_of_the_cache) {
  const double bandwidth = device().ceilings().bytes_per_second;
  for (const std::size_t megabytes : {8, 256}) {
    const std::size_t count = (megabytes << 20) / 4;
    auto one = session(kCopy, copying(count, 2112));
    const std::vector<std::byte> whole = bytes(counting(count + 64));
    std::vector<double> seconds;
    for (std::size_t run = 0; run < 12; ++run) {
      RunInput input{std::span<const std::byte>(whole).subspan(run * 4, count * 4), megabytes, whole};
      Outputs outputs(1);
      const std::vector<std::vector<ElementRange>> wanted{{{0, 1}}};
      const auto ran = one->run(RunInputs(std::vector<RunInput>{input}), outputs,
                                {.timed = true, .poison_seed = run, .deadline_s = 10.0, .wanted = wanted});
      BOOST_REQUIRE_MESSAGE(ran, words(ran));
      if (run < 2 || !ran->disturbance.empty()) continue;
      seconds.push_back(ran->seconds);
      BOOST_TEST(ran->temperature_c < 120.0);
      if (run == 11)
        BOOST_TEST_MESSAGE(megabytes << " MiB: " << 1e6 * ran->seconds << " us, clock " << ran->clock_mhz
                                     << " MHz, " << ran->temperature_c << " C, " << ran->power_w
                                     << " W, throttle " << ran->throttle);
    }
    BOOST_REQUIRE(seconds.size() >= 8U);
    std::sort(seconds.begin(), seconds.end());
    const double rate = 2.0 * static_cast<double>(count) * 4 / seconds[seconds.size() / 2];
    BOOST_TEST_MESSAGE(megabytes << " MiB: " << rate * 1e-9 << " GB/s of " << bandwidth * 1e-9);
    BOOST_TEST(rate < 1.1 * bandwidth);
    if (megabytes == 256) BOOST_TEST(rate > 0.6 * bandwidth);
  }
  // By now CUPTI has recorded runs or reported why it cannot.
  BOOST_TEST(device().info().isolation.find("CUPTI") == std::string::npos, device().info().isolation);
}

BOOST_AUTO_TEST_CASE(the_overhead_of_a_timed_run_is_reported) {
  const std::size_t count = (std::size_t{134} << 20) / 4;
  auto one = session(kCopy, copying(count, 2112));
  const std::vector<std::byte> whole = bytes(counting(count + 64));
  const std::vector<std::vector<ElementRange>> wanted{{{0, 1}, {17, 1}, {1000, 1}}};
  double timed = 0.0;
  Clock::time_point start;
  constexpr int runs = 20;
  for (int run = -3; run < runs; ++run) {
    if (run == 0) start = Clock::now();
    RunInput input{
        std::span<const std::byte>(whole).subspan(static_cast<std::size_t>(run + 3) * 4, count * 4), 134,
        whole};
    Outputs outputs{std::vector<std::byte>(0)};
    static Outputs kept(1);
    const auto ran =
        one->run(RunInputs(std::vector<RunInput>{input}), kept,
                 {.timed = true, .poison_seed = static_cast<std::uint64_t>(run + 9), .wanted = wanted});
    BOOST_REQUIRE_MESSAGE(ran, words(ran));
    if (run >= 0) timed += ran->seconds;
  }
  const double each = std::chrono::duration<double>(Clock::now() - start).count() / runs;
  BOOST_TEST_MESSAGE("a timed run of " << 1e3 * timed / runs << " ms takes " << 1e3 * each << " ms in all");
  BOOST_TEST(each < 0.05);
}

BOOST_AUTO_TEST_SUITE_END()
