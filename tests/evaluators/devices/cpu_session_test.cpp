// SPDX-License-Identifier: Apache-2.0
// How a plan becomes calls, and what is checked around them, with kernels and plans written in the tests.
// runs alone
// also without bubblewrap
#include "evaluators/devices/cpu/session.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "evaluators/system/cores.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cpu_test;
using Use = PlannedBuffer::Use;
using Kind = PlannedArgument::Kind;

namespace {

std::unique_ptr<Session> opened(const std::string& source, const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& k : plan.kernels) names.push_back(k.kernel);
  auto session = device().open(compiled(by_hand(source, names)), plan, 20.0);
  BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
  return std::move(*session);
}

int cores() {
  return static_cast<int>(device().facts().at("num_cores"));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_session)

BOOST_AUTO_TEST_CASE(scalars_of_every_type_arrive_as_they_were_given) {
  Plan plan;
  plan.buffers = {{"out", 12 * 8, Use::output, false}};
  plan.kernels = {
      kernel("k", 1,
             {buffer(0), scalar(Dtype::f64, -1.5), scalar(Dtype::f32, 0.25), scalar(Dtype::i64, -4e15),
              scalar(Dtype::i32, -70000), scalar(Dtype::i16, -300), scalar(Dtype::i8, -100),
              scalar(Dtype::u64, 5e15), scalar(Dtype::u32, 4e9), scalar(Dtype::u16, 60000),
              scalar(Dtype::u8, 200), scalar(Dtype::f16, 1.5), scalar(Dtype::bf16, 1.5)})};
  auto session = opened(R"(#include <cstdint>
    extern "C" void k(double* out, double a, float b, int64_t c, int32_t d, int16_t e, int8_t f, uint64_t g, uint32_t h,
                      uint16_t i, uint8_t j, uint16_t half, uint16_t bfloat) {
      const double all[] = {a, b, (double)c, (double)d, (double)e, (double)f, (double)g, (double)h, (double)i, (double)j,
                            (double)half, (double)bfloat};
      for (int n = 0; n < 12; ++n) out[n] = all[n];
    })",
                        plan);
  std::vector<std::vector<std::byte>> outputs(1);
  BOOST_REQUIRE(session->run({}, outputs, {}));
  const std::vector<double> right{-1.5, 0.25, -4e15, -70000, -300,   -100,
                                  5e15, 4e9,  60000, 200,    0x3e00, 0x3fc0};
  BOOST_TEST(values<double>(outputs[0]) == right, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(kernels_run_in_order_on_as_many_threads_as_they_name) {
  Plan plan;
  const std::size_t count = 1 << 16;
  plan.buffers = {{"out", count * 4, Use::output, false}, {"parts", 4 * count, Use::workspace, true}};
  const std::vector<PlannedArgument> args{buffer(0), buffer(1), special(Kind::thread),
                                          special(Kind::threads)};
  plan.kernels = {kernel("first", cores(), args), kernel("second", 1, args), kernel("third", cores(), args)};
  auto session = opened(R"(
    const int n = 1 << 16;
    extern "C" void first(float*, float* parts, int thread, int threads) {
      for (int i = thread; i < n; i += threads) parts[i] += (float)(i % 7);   // the workspace starts as zeros
    }
    extern "C" void second(float*, float* parts, int thread, int threads) {
      for (int i = n - 1; i > 0; --i) parts[i - 1] += thread == 0 && threads == 1 ? parts[i] : 1e9f;
    }
    extern "C" void third(float* out, float* parts, int thread, int threads) {
      for (int i = thread; i < n; i += threads) out[i] = parts[0] + (float)i;
    })",
                        plan);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(i % 7);
  std::vector<std::vector<std::byte>> outputs(1);
  for (int run = 0; run < 20; ++run) {
    BOOST_REQUIRE(session->run({}, outputs, {.timed = false, .poison_seed = 5, .deadline_s = 10.0}));
    const auto out = values<float>(outputs[0]);
    BOOST_TEST(out[0] == static_cast<float>(sum));
    BOOST_TEST(out[1000] == static_cast<float>(sum) + 1000.0f);
  }
}

BOOST_AUTO_TEST_CASE(outputs_and_workspaces_hold_another_poison_in_every_run) {
  Plan plan;
  plan.buffers = {{"out", 8192, Use::output, false}, {"scratch", 4096, Use::workspace, false}};
  plan.kernels = {kernel("k", 1, {buffer(0), buffer(1)})};
  auto session = opened(R"(#include <cstring>
    extern "C" void k(char* out, char* scratch) {
      std::memmove(out + 4096, out, 4096);
      std::memcpy(out, scratch, 4096);
      std::memset(scratch, 7, 4096);
    })",
                        plan);
  std::vector<std::vector<std::byte>> first(1), second(1);
  BOOST_REQUIRE(session->run({}, first, {.timed = false, .poison_seed = 1, .deadline_s = 10.0}));
  BOOST_REQUIRE(session->run({}, second, {.timed = false, .poison_seed = 2, .deadline_s = 10.0}));
  std::size_t equal = 0;
  for (std::size_t i = 0; i < 8192; ++i) equal += first[0][i] == second[0][i] ? 1 : 0;
  BOOST_TEST(equal < 200u);
  for (const float value : values<float>(first[0])) BOOST_TEST_REQUIRE(std::isfinite(value));
}

BOOST_AUTO_TEST_CASE(addresses_of_buffers_change_from_run_to_run_and_stay_aligned) {
  Plan plan;
  plan.buffers = {{"out", 8 + 8 * 7, Use::output, false}, {"in", 100, Use::input, false}};
  plan.kernels = {kernel("k", 1, {buffer(0), buffer(1)})};
  auto session = opened(
      "extern \"C\" void k(unsigned long* out, void* in) {"
      " for (int i = 0; i < 8; ++i) out[i] = i % 2 ? (unsigned long)in : (unsigned long)out; }",
      plan);
  const std::vector<std::vector<std::byte>> inputs{std::vector<std::byte>(100)};
  for (const bool timed : {false}) {
    std::vector<std::vector<std::byte>> one(1), two(1);
    BOOST_REQUIRE(session->run(inputs, one, {.timed = timed, .poison_seed = 1, .deadline_s = 10.0}));
    BOOST_REQUIRE(session->run(inputs, two, {.timed = timed, .poison_seed = 2, .deadline_s = 10.0}));
    for (std::size_t i = 0; i < 2; ++i) {
      const auto a = values<std::uint64_t>(one[0])[i], b = values<std::uint64_t>(two[0])[i];
      BOOST_TEST(a != b);
      BOOST_TEST(a % 64 == 0u);
      BOOST_TEST(b % 64 == 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_byte_beyond_either_end_of_a_buffer_of_odd_size_is_found) {
  for (const int at : {-1, 1001}) {
    Plan plan;
    plan.buffers = {{"out", 1001, Use::output, false}};
    plan.kernels = {kernel("k", 1, {buffer(0), scalar(Dtype::i32, at)})};
    auto session = opened(
        "extern \"C\" void k(char* out, int at) { for (int i = 0; i < 1001; ++i) out[i] = 0; out[at] ^= 1; }",
        plan);
    std::vector<std::vector<std::byte>> outputs(1);
    tl::expected<Sample, Fault> sample = session->run({}, outputs, {});
    BOOST_REQUIRE(!sample);
    BOOST_TEST(name_of(sample.error().kind) == "guard_overwritten");
    BOOST_TEST(sample.error().detail.find(at < 0 ? "1 byte before the start of 'out'"
                                                 : "right past the end of 'out'") != std::string::npos,
               sample.error().detail);
  }
}

BOOST_AUTO_TEST_CASE(more_threads_than_cores_are_refused_with_the_remedy) {
  Plan plan;
  plan.buffers = {{"out", 64, Use::output, false}};
  plan.kernels = {kernel("k", cores() + 1, {buffer(0)})};
  const auto binary = compiled(by_hand("extern \"C\" void k(char*) {}", {"k"}));
  const auto session = device().open(binary, plan, 20.0);
  BOOST_REQUIRE(!session);
  BOOST_TEST(name_of(session.error().kind) == "launch_failed");
  BOOST_TEST(session.error().detail.find("num_cores") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_workspace_larger_than_the_machine_is_refused) {
  Plan plan;
  plan.buffers = {{"out", 64, Use::output, false}, {"huge", std::size_t{1} << 60, Use::workspace, false}};
  plan.kernels = {kernel("k", 1, {buffer(0)})};
  const auto session = device().open(compiled(by_hand("extern \"C\" void k(char*) {}", {"k"})), plan, 20.0);
  BOOST_REQUIRE(!session);
  BOOST_TEST(session.error().detail.find("'huge'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_workload_that_is_short_beside_handshakes_is_not_timed) {
  Plan plan;
  plan.buffers = {{"out", 64, Use::output, false}};
  plan.kernels = {kernel("k", 1, {buffer(0)})};
  auto session = opened("extern \"C\" void k(char* out) { for (int i = 0; i < 64; ++i) out[i] = 1; }", plan);
  std::vector<std::vector<std::byte>> outputs(1);
  BOOST_REQUIRE(session->run({}, outputs, {}));
  // A run that a busy machine interrupts takes longer than the limit.
  auto sample = session->run({}, outputs, {.timed = true, .poison_seed = 3, .deadline_s = 10.0});
  for (int i = 0; i < 20 && sample; ++i)
    sample = session->run({}, outputs, {.timed = true, .poison_seed = 3, .deadline_s = 10.0});
  BOOST_REQUIRE(!sample);
  BOOST_TEST(name_of(sample.error().kind) == "too_short");
  const std::string limit = std::to_string(static_cast<int>(shortest_in_handshakes)) + " handshakes";
  BOOST_TEST(sample.error().detail.find(limit) != std::string::npos, sample.error().detail);
  BOOST_TEST(sample.error().detail.find(" us, less than the limit of ") != std::string::npos,
             sample.error().detail);
}

BOOST_AUTO_TEST_CASE(an_object_that_is_no_kernel_does_not_load) {
  Plan plan;
  plan.buffers = {{"out", 64, Use::output, false}};
  plan.kernels = {kernel("k", 1, {buffer(0)})};
  Binary binary;
  binary.path = source_folder / "CMakeLists.txt";
  const auto session = device().open(binary, plan, 20.0);
  BOOST_REQUIRE(!session);
  BOOST_TEST(name_of(session.error().kind) == "load_failed", session.error().detail);
}

BOOST_AUTO_TEST_CASE(without_bubblewrap_the_filter_still_holds) {
  const Sandbox none = Sandbox::none("for the test");
  const CellOptions options{std::filesystem::path(CULTIVAR_BIN_DIR) / "cultivar-cell",
                            compiled(by_hand(R"(
    extern "C" void k(char* out, int call) {
      long result = 0;
#if defined(__x86_64__)
      if (call) asm volatile("syscall" : "=a"(result) : "a"(39) : "rcx", "r11", "memory");
#endif
      for (int i = 0; i < 64; ++i) out[i] = (char)result;
    })",
                                             {"k"}))
                                .path};
  for (const int call : {0, 1}) {
    Plan plan;
    plan.buffers = {{"out", 64, Use::output, false}};
    plan.kernels = {kernel("k", 1, {buffer(0), scalar(Dtype::i32, call)})};
    auto session = CpuSession::open(options, none, plan, usable_cores(), 20.0);
    BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
    std::vector<std::vector<std::byte>> outputs(1);
    const auto sample = (*session)->run({}, outputs, {});
#if defined(__x86_64__)
    BOOST_TEST(sample.has_value() == (call == 0));
    if (!sample) BOOST_TEST(sample.error().detail.find("getpid") != std::string::npos, sample.error().detail);
#else
    BOOST_TEST(sample.has_value());
#endif
  }
}

BOOST_AUTO_TEST_CASE(the_device_knows_itself) {
  const Facts& facts = device().facts();
  for (const char* name : {"num_cores", "l1_bytes", "l2_bytes", "l3_bytes", "vector_bits", "page_bytes"})
    BOOST_TEST(facts.at(name) >= 1.0, name);
  BOOST_TEST(device().info().isolation.find("seccomp") != std::string::npos);
  BOOST_TEST(device().info().description.find("cores") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ceilings_are_plausible_and_measured_once) {
  const Ceilings& ceilings = device().ceilings();
  BOOST_TEST(ceilings.flops > 1e9);
  BOOST_TEST(ceilings.bytes_per_second > 1e9);
  BOOST_TEST(ceilings.cached_bytes_per_second >= ceilings.bytes_per_second);
  BOOST_TEST(ceilings.handshake_s > 0.0);
  BOOST_REQUIRE(!ceilings.cold.empty());
  BOOST_TEST(ceilings.cold.back().bytes_per_second == ceilings.bytes_per_second);
  for (std::size_t i = 1; i < ceilings.cold.size(); ++i) {
    BOOST_TEST(ceilings.cold[i - 1].bytes < ceilings.cold[i].bytes);
    BOOST_TEST(ceilings.cold[i - 1].bytes_per_second >= ceilings.cold[i].bytes_per_second);
  }
  CpuDevice other({.cache = cache_folder, .cell = std::filesystem::path(CULTIVAR_BIN_DIR) / "cultivar-cell"});
  BOOST_TEST(other.ceilings().flops == ceilings.flops);
  BOOST_TEST((other.ceilings().cold == ceilings.cold));
}

BOOST_AUTO_TEST_CASE(ceilings_of_a_busy_machine_are_raised_and_never_lowered) {
  const auto folder = std::filesystem::path(CULTIVAR_BIN_DIR) / "../cache/tests/busy";
  std::filesystem::remove_all(folder);
  const std::filesystem::path cell = std::filesystem::path(CULTIVAR_BIN_DIR) / "cultivar-cell";
  CpuDevice busy({.cache = folder, .cell = cell});
  const Ceilings honest = busy.ceilings();
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("ceilings-")) file = entry.path();
  BOOST_REQUIRE(!file.empty());
  std::ifstream in(file);
  auto facts = nlohmann::json::parse(in);
  facts["flops"] = honest.flops / 10;
  facts["bytes_per_second"] = honest.bytes_per_second * 10;
  facts["cold"][0]["bytes_per_second"] = honest.cold[0].bytes_per_second * 100;
  std::ofstream(file) << facts;
  CpuDevice later({.cache = folder, .cell = cell});
  BOOST_TEST(later.ceilings().flops == honest.flops / 10);
  // Other work on this machine may make a measurement too low, and none too high.
  double raised = 0.0;
  for (int tries = 0; tries < 10 && raised <= honest.flops / 2; ++tries)
    raised = later.raise_ceilings().flops;
  BOOST_TEST(raised > honest.flops / 2);
  BOOST_TEST(later.ceilings().bytes_per_second == honest.bytes_per_second * 10);
  BOOST_TEST(later.ceilings().cold[0].bytes_per_second == honest.cold[0].bytes_per_second * 100);
  BOOST_TEST(later.ceilings().cold[1].bytes_per_second >= honest.bytes_per_second * 10);
}

// So that 0 times an uninitialised value is seen, whatever type a kernel reads it as.
BOOST_AUTO_TEST_CASE(poison_may_be_not_a_number_in_every_type_and_is_found_again) {
  Plan plan;
  plan.buffers = {{"out", 4100, Use::output, false},
                  {"scratch", 4096, Use::workspace, false},
                  {"zeros", 64, Use::workspace, true}};
  plan.kernels = {kernel("k", 1, {buffer(0), buffer(1), buffer(2)})};
  auto session = opened(R"(#include <cstring>
    extern "C" void k(char* out, char* scratch, char* zeros) {
      std::memcpy(out, scratch, 2048);
      std::memcpy(out, zeros, 64);
    })",
                        plan);
  std::vector<std::vector<std::byte>> outputs(1);
  const auto run = [&](std::uint64_t seed) {
    BOOST_REQUIRE(session->run({}, outputs, {.timed = false, .poison_seed = seed, .deadline_s = 10.0}));
    // All but the groups that the kernel wrote, and the remainder of four bytes.
    BOOST_TEST(session->unwritten_elements() == (4096u - 2048u) / 8u + 1u);
    for (std::size_t i = 0; i < 64; ++i) BOOST_TEST_REQUIRE((outputs[0][i] == std::byte{0}));
  };
  run(5 | RunOptions::nan_poison);
  std::vector<std::byte> all(outputs[0].begin() + 64, outputs[0].begin() + 4096);
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    std::vector<double> read(all.size() / size_of(dtype));
    decode(dtype, all, read);
    for (const double value : read) BOOST_TEST_REQUIRE(std::isnan(value), name_of(dtype));
  }
  const std::vector<std::byte> first = all;
  run(6 | RunOptions::nan_poison);
  all.assign(outputs[0].begin() + 64, outputs[0].begin() + 4096);
  BOOST_TEST((first != all));
  run(5);
  all.assign(outputs[0].begin() + 64, outputs[0].begin() + 4096);
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    std::vector<double> read(all.size() / size_of(dtype));
    decode(dtype, all, read);
    for (const double value : read) BOOST_TEST_REQUIRE(std::isfinite(value), name_of(dtype));
  }
}

// 24 GiB of addresses, a few megabytes of memory.
BOOST_AUTO_TEST_CASE(tensors_may_repeat_in_a_range_of_addresses_beyond_32_bits) {
  constexpr std::size_t period = std::size_t{64} << 20, repeats = 130, tail = 12;  // bytes
  Plan plan;
  plan.buffers = {{"x", period * repeats + tail, Use::input, false},
                  {"y", period * repeats + tail, Use::output, false},
                  {"w", 8, Use::input, false}};
  plan.kernels = {
      kernel("k", 1, {buffer(0), buffer(1), buffer(2), scalar(Dtype::i64, period * repeats / 4)})};
  const auto open = [&](const std::string& source) {
    auto session =
        device().open_repeating(compiled(by_hand(source, {"k"})), plan,
                                std::vector<Repetition>{{0, period, repeats}, {1, period, repeats}}, 20.0);
    BOOST_REQUIRE_MESSAGE(session, (session ? "" : session.error().detail));
    return std::move(*session);
  };
  std::vector<std::vector<std::byte>> inputs{std::vector<std::byte>(period + tail),
                                             std::vector<std::byte>(8)},
      outputs(1);
  for (std::size_t i = 0; i < inputs[0].size(); ++i) inputs[0][i] = static_cast<std::byte>(i * 7 % 251);
  inputs[1].assign(8, std::byte{3});
  // Reads the first, a middle and the last element; the last three lie behind what repeats.
  auto right = open(R"(
    extern "C" void k(const unsigned* x, unsigned* y, const unsigned* w, long n) {
      y[5] = x[5] + w[1];
      y[n / 130 * 77 + 6] = x[n / 130 * 77 + 6];
      for (long i = n; i < n + 3; ++i) y[i] = x[i];
    })");
  BOOST_REQUIRE(right->run(inputs, outputs, {.poison_seed = 3, .deadline_s = 20.0}));
  BOOST_REQUIRE(outputs[0].size() == period + tail);
  const auto x = values<std::uint32_t>(inputs[0]), y = values<std::uint32_t>(outputs[0]);
  BOOST_TEST(y[5] == x[5] + 0x03030303U);
  BOOST_TEST(y[6] == x[6]);
  for (std::size_t i = period / 4; i < period / 4 + 3; ++i) BOOST_TEST(y[i] == x[i]);
  BOOST_TEST(right->unwritten_elements() == (period + tail) / 8 + 1 - 2 - 2);

  auto wraps = open(R"(
    extern "C" void k(const unsigned* x, unsigned* y, const unsigned*, long n) { y[(int)n + 1] = x[0]; })");
  const auto ran = wraps->run(inputs, outputs, {.poison_seed = 4, .deadline_s = 20.0});
  BOOST_REQUIRE(!ran);
  BOOST_TEST((ran.error().kind == Fault::Kind::crashed), ran.error().detail);

  auto beyond = open(R"(
    extern "C" void k(const unsigned* x, unsigned* y, const unsigned*, long n) { y[n + 3] = x[0]; })");
  const auto wrote = beyond->run(inputs, outputs, {.poison_seed = 5, .deadline_s = 20.0});
  BOOST_REQUIRE(!wrote);
  BOOST_TEST((wrote.error().kind == Fault::Kind::guard_overwritten), wrote.error().detail);
}

BOOST_AUTO_TEST_SUITE_END()
