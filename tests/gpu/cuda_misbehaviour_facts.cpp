// SPDX-License-Identifier: Apache-2.0
// What the misbehaviour suite rests on, measured on the card itself: what survives a launch and what the
// judge leaves of it, when events are recorded, which addresses a kernel can reach. The sources are
// tests/kernels/cuda/probes. Whatever could break the context runs in a child process: this program, with the
// environment variable kChild set.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "evaluators/devices/cuda/run/device_memory.hpp"
#include "evaluators/devices/cuda/run/gpu.hpp"
#include "evaluators/devices/cuda/run/program.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/random.hpp"
#include "gpu/gpu_bench.hpp"

using namespace cultivar;
using namespace cultivar::gpu_test;

namespace {

constexpr const char* kChild = "CULTIVAR_TEST_CHILD";
constexpr double kSeconds = 10.0;
constexpr std::uint64_t kMark = 0x5eedf00d;

cuda::Gpu& gpu() {
  static cuda::Gpu instance(0, testing::tests_cache(), testing::programs_folder() / "cultivar-nvrtc");
  return instance;
}
unsigned multiprocessors() {
  return static_cast<unsigned>(device().facts().at("num_sms"));
}

std::string probe(const std::string& name) {
  const auto file = testing::source_folder() / "tests/kernels/cuda/probes" / (name + ".cu");
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  BOOST_REQUIRE_MESSAGE(!text.empty(), file.string() + " cannot be read");
  return text;
}

// A kernel of a probe with its arguments, each a u64 in `values` or the buffer 0. Buffers are of the caller.
class Probe {
 public:
  Probe(const std::string& name, std::vector<PlannedKernel> kernels, std::uint64_t bytes = 64 << 10) {
    plan_.buffers = {{"out", bytes, Use::output, false, 8}};
    plan_.kernels = std::move(kernels);
    Variant variant;
    variant.source = probe(name) + "\nextern \"C\" __global__ void nothing() {}\n";
    variant.manifest.target = target_named("cuda");
    variant.manifest.launch.emplace_back().kernel = "nothing";  // plans are handwritten here
    const auto binary = compiler().compile(variant, {}, 60.0);
    BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
    auto program = cuda::Program::load(gpu(), binary->path, plan_);
    BOOST_REQUIRE_MESSAGE(program, (program ? "" : program.error().detail));
    program_ = std::move(*program);
    auto memory = cuda::DeviceMemory::allocate(gpu(), bytes);
    BOOST_REQUIRE(memory.has_value());
    memory_ = std::move(*memory);
    const std::array<cuda::Address, 1> places = {memory_.address()};
    if (const auto refused = program_->place(places)) BOOST_FAIL(refused->detail);
  }
  void clear() const {
    BOOST_REQUIRE(gpu().driver().MemsetD8Async(memory_.address(), 0, memory_.size(), gpu().stream()) == 0);
    BOOST_REQUIRE(!gpu().wait(deadline_in(kSeconds), "clearing"));
  }
  // Empty, or the fault.
  std::string launch() const {
    if (const auto fault = program_->launch(kSeconds)) return fault->detail;
    if (const auto fault = gpu().wait(deadline_in(kSeconds), "the probe")) return fault->detail;
    return {};
  }
  void queue() const {
    if (const auto fault = program_->launch(kSeconds)) BOOST_FAIL(fault->detail);
  }
  std::vector<std::uint64_t> results(std::size_t count) const {
    std::vector<std::uint64_t> values(count);
    BOOST_REQUIRE(
        gpu().driver().MemcpyDtoHAsync(values.data(), memory_.address(), 8 * count, gpu().stream()) == 0);
    BOOST_REQUIRE(!gpu().wait(deadline_in(kSeconds), "fetching"));
    return values;
  }
  cuda::Address address() const { return memory_.address(); }

 private:
  Plan plan_;
  std::unique_ptr<cuda::Program> program_;
  cuda::DeviceMemory memory_;
};

// Split, because a plan's numbers are doubles.
std::vector<PlannedArgument> with(std::initializer_list<std::uint64_t> numbers) {
  std::vector<PlannedArgument> args = {buffer(0)};
  for (const std::uint64_t number : numbers) {
    args.push_back(scalar(Dtype::u32, static_cast<double>(number & 0xffffffff)));
    args.push_back(scalar(Dtype::u32, static_cast<double>(number >> 32)));
  }
  return args;
}

// Runs this test case in a process of its own and repeats what it says. True: it said something and
// succeeded.
bool in_a_child(const std::string& test) {
  std::error_code ignored;
  const std::string command = std::string(kChild) + "=1 timeout 40 '" +
                              std::filesystem::read_symlink("/proc/self/exe", ignored).string() +
                              "' --run_test=cuda_misbehaviour/" + test +
                              " --log_level=message --color_output=no 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::array<char, 4096> line{};
  bool told = false;
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    std::string text = line.data();
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    const std::size_t fate = text.find("fate: ");
    told = told || fate != text.npos;
    if (!text.empty()) BOOST_TEST_MESSAGE((fate != text.npos ? text.substr(fate) : "child: " + text));
  }
  const int status = ::pclose(pipe);
  if (status != 0) BOOST_TEST_MESSAGE("fate: the process of " << test << " ended with status " << status);
  return told && status == 0;
}
bool is_child() {
  return std::getenv(kChild) != nullptr;
}

// The share of marks that a launch finds of the ones that the launch before it left, in percent.
double survival(const Probe& plant, const Probe& find, const std::function<cuda::Result()>& between) {
  find.clear();
  BOOST_REQUIRE_MESSAGE(plant.launch().empty(), "planting the marks failed");
  if (between) BOOST_REQUIRE(between() == 0);
  const std::string fault = find.launch();
  BOOST_REQUIRE_MESSAGE(fault.empty(), fault);
  const auto counts = find.results(2);  // found, searched
  BOOST_REQUIRE(counts[1] > 0U);
  return 100.0 * static_cast<double>(counts[0]) / static_cast<double>(counts[1]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_misbehaviour, *needs_a_gpu())

BOOST_AUTO_TEST_CASE(the_cards_memory_is_as_the_judge_assumes) {
  const auto attribute = [](int which) {
    int value = -1;
    gpu().driver().DeviceGetAttribute(&value, which, gpu().index());
    return value;
  };
  BOOST_TEST_MESSAGE("fate: " << device().info().description);
  BOOST_TEST_MESSAGE("fate: attributes: pageable memory access "
                     << attribute(88) << ", uses the host's page tables " << attribute(100)
                     << ", concurrent managed access " << attribute(89) << ", host register " << attribute(99)
                     << ", virtual memory management " << attribute(102) << ", maximum persisting L2 "
                     << attribute(108) << " bytes, reserved shared memory " << attribute(111) << " bytes of "
                     << attribute(81));
  BOOST_TEST_MESSAGE("fate: allocation granule " << gpu().memory_grain() << " bytes (0: plain allocations)");
  const std::string obstacle = cuda::pageable_memory_obstacle(gpu());
  BOOST_TEST_MESSAGE("fate: host memory is " << (obstacle.empty() ? "out of reach" : obstacle));
  BOOST_TEST(obstacle.empty(), obstacle);
  std::vector<cuda::DeviceMemory> pieces;
  for (const std::size_t bytes : {1u, 4096u, 3u << 20, 64u << 20}) {
    auto memory = cuda::DeviceMemory::allocate(gpu(), bytes);
    BOOST_REQUIRE(memory.has_value());
    char text[32];
    std::snprintf(text, sizeof text, "%#" PRIx64, static_cast<std::uint64_t>(memory->address()));
    BOOST_TEST_MESSAGE("fate: " << bytes << " bytes at " << text << (memory->alone() ? ", alone" : ""));
    if (gpu().maps_memory()) {
      BOOST_TEST(memory->alone());
      for (const cuda::DeviceMemory& other : pieces) {
        const auto distance = static_cast<std::int64_t>(memory->address() - other.address());
        BOOST_TEST(std::abs(distance) > std::int64_t{1} << 30);
      }
    }
    pieces.push_back(std::move(*memory));
  }
  BOOST_TEST(gpu().maps_memory(), "the judge's memory is not at random addresses");
}

BOOST_AUTO_TEST_CASE(the_judge_leaves_nothing_in_a_multiprocessor) {
  const unsigned sms = multiprocessors();
  const std::uint64_t seed = secret_seed();
  struct Medium {
    const char* name;
    unsigned blocks, threads, shared;
    std::function<cuda::Result()> judge;
  };
  const auto scrub_local = [&] { return gpu().scrub_local(512, seed); };
  for (const Medium& medium :
       {Medium{"shared", sms, 1024, 200 << 10, [&] { return gpu().kernels().scrub(seed, true); }},
        Medium{"reserved_shared", sms, 256, 0, [&] { return gpu().kernels().scrub(seed, true); }},
        Medium{"local", 2 * sms, 1024, 0, scrub_local}, Medium{"local_small", 8 * sms, 256, 0, scrub_local},
        Medium{"registers", sms, 1024, 0, [&] { return gpu().kernels().fill_registers(seed); }}}) {
    const auto one = [&](const char* what) {
      PlannedKernel planned =
          kernel(std::string(medium.name) + what, medium.blocks, medium.threads, with({kMark}));
      if (medium.shared > 0) planned.launch.set("shared", {medium.shared});
      return planned;
    };
    const Probe plant("state_of_a_multiprocessor", {one("_plant")}),
        find("state_of_a_multiprocessor", {one("_find")});
    const double before = survival(plant, find, {});
    const double after = survival(plant, find, medium.judge);
    BOOST_TEST_MESSAGE("fate: " << medium.name << ": " << before << " % of the marks survive a launch, "
                                << after << " % the judge");
    BOOST_TEST(after == 0.0, medium.name << ": " << after << " % survive");
  }
}

BOOST_AUTO_TEST_CASE(which_blocks_find_shared_memory_of_an_earlier_run) {
  // The order of a timed run (CudaSession) and parts of it. Clearing memory moves shared memory.
  constexpr unsigned kBlocks = 4096, kRuns = 60;
  cuda::Gpu& card = gpu();
  const cuda::OwnKernels& own = card.kernels();
  PlannedKernel finds = kernel("find_marks", kBlocks, 128, with({0}));
  finds.launch.set("shared", {40960});
  struct Course {
    const char* name;
    bool scrub, flush, scrub_again, registers;
  };
  unsigned run = 1;
  for (const Course& course :
       {Course{"nothing", false, false, false, false}, Course{"scrub", true, false, false, false},
        Course{"scrub, flush", true, true, false, false},
        Course{"flush, scrub, registers", false, true, true, true},
        Course{"scrub, flush, scrub, registers", true, true, true, true}}) {
    unsigned long long blocks = 0;
    std::string first;
    for (unsigned i = 0; i < kRuns; ++i, ++run) {
      finds.args = with({run});
      const Probe probe("shared_memory_of_earlier_runs", {finds});
      probe.clear();
      const auto after = [&](bool wanted, const std::function<cuda::Result()>& step) {
        if (wanted) BOOST_REQUIRE(step() == 0);
      };
      const auto scrub = [&] { return own.scrub(secret_seed(), true); };
      after(course.scrub, scrub);
      after(course.flush, [&] {
        const cuda::DeviceMemory& memory = card.flush_memory();
        return card.driver().MemsetD8Async(memory.address(), 1, memory.size(), card.stream());
      });
      after(course.scrub_again, scrub);
      after(course.registers, [&] { return own.fill_registers(secret_seed()); });
      BOOST_REQUIRE(!card.wait(deadline_in(kSeconds), "the judge's kernels"));
      BOOST_REQUIRE(probe.launch().empty());
      const auto told = probe.results(1 + 7 * 64);
      blocks += told[0];
      if (told[0] == 0 || !first.empty()) continue;
      char line[160];
      std::snprintf(line, sizeof line,
                    "; the first: block %" PRIu64 ", %" PRIu64 " words from index %" PRIu64 ", %" PRId64
                    " launches old",
                    told[1], told[3], told[4],
                    static_cast<std::int64_t>(told[6]) - static_cast<std::int64_t>(told[5] & 0xffff));
      first = line;
    }
    BOOST_TEST_MESSAGE("fate: shared memory of earlier runs after " << course.name << ": in " << blocks
                                                                    << " of " << kRuns * kBlocks << " blocks"
                                                                    << first);
    if (course.scrub_again) BOOST_TEST(blocks == 0U);
  }
}

BOOST_AUTO_TEST_CASE(the_judges_last_kernel_ends_after_all_of_a_plan) {
  // The first kernel takes 400 us; the second starts at once, and ends at once or waits for the first.
  const auto& driver = gpu().driver();
  std::array<cuda::Event, 3> events{};
  for (cuda::Event& event : events) BOOST_REQUIRE(driver.EventCreate(&event, 0) == 0);
  for (const char* second : {"ends", "waits"}) {
    PlannedKernel works = kernel("works", multiprocessors(), 128, with({400000})),
                  follows = kernel(second, 1, 32, with({}));
    follows.launch.set("programmatic_dependent", {1});
    const Probe plan("ends_early", {works, follows});
    for (const bool traced : {false, true, false}) {
      if (traced && !gpu().trace().begin()) {
        BOOST_TEST_MESSAGE("fate: CUPTI does not trace: " << gpu().trace_obstacle());
        continue;
      }
      BOOST_REQUIRE(driver.EventRecord(events[0], gpu().stream()) == 0);
      plan.queue();
      BOOST_REQUIRE(driver.EventRecord(events[1], gpu().stream()) == 0);
      BOOST_REQUIRE(gpu().kernels().nothing() == 0);
      BOOST_REQUIRE(driver.EventRecord(events[2], gpu().stream()) == 0);
      BOOST_REQUIRE(!gpu().wait(deadline_in(kSeconds), "the plan"));
      float last = 0.0f, all = 0.0f;
      BOOST_REQUIRE(driver.EventElapsedTime(&last, events[0], events[1]) == 0);
      BOOST_REQUIRE(driver.EventElapsedTime(&all, events[0], events[2]) == 0);
      BOOST_TEST_MESSAGE("fate: " << (traced ? "traced: " : "")
                                  << "400 us of work and a kernel that starts early and " << second << ": "
                                  << 1e3f * last << " us to the event behind it, " << 1e3f * all
                                  << " us to the event behind an empty kernel");
      BOOST_TEST(all > 0.39f);
      if (!traced) continue;
      const auto seen = gpu().trace().end();
      const double origin = seen.empty() ? 0.0 : seen.front().begin_s;
      for (const cuda::TracedKernel& one : seen)
        BOOST_TEST_MESSAGE("fate: CUPTI: " << one.name << " from " << 1e6 * (one.begin_s - origin) << " to "
                                           << 1e6 * (one.end_s - origin) << " us");
    }
  }
  for (const cuda::Event event : events) driver.EventDestroy(event);
}

BOOST_AUTO_TEST_CASE(what_a_discard_brings_back_is_told) {
  // Older data than the judge's pattern could come back; the screen refuses the instruction.
  constexpr std::uint64_t bytes = 16 << 20;
  const Probe write("discards", {kernel("write_old", 264, 256, with({kMark, bytes / 8}))}, bytes + 4096);
  const Probe discard("discards", {kernel("discard_lines", 264, 256, with({write.address(), bytes}))});
  const Probe count("discards", {kernel("count_old", 264, 256, with({write.address(), kMark, bytes / 8}))});
  const cuda::DeviceMemory& flush = gpu().flush_memory();
  for (const bool discards : {false, true}) {
    BOOST_REQUIRE(write.launch().empty());
    BOOST_REQUIRE(gpu().driver().MemsetD8Async(flush.address(), 1, flush.size(), gpu().stream()) == 0);
    BOOST_REQUIRE(gpu().kernels().poison(write.address(), bytes, 7) == 0);
    count.clear();
    if (discards) BOOST_REQUIRE(discard.launch().empty());
    BOOST_REQUIRE(count.launch().empty());
    const auto counts = count.results(2);
    BOOST_TEST_MESSAGE("fate: discard: " << (discards ? "with" : "without") << " it, "
                                         << 100.0 * static_cast<double>(counts[0]) / (bytes / 8)
                                         << " % of the data from before the pattern is back");
    if (!discards) BOOST_TEST(counts[0] == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_kernel_does_not_read_the_workers_memory) {
  if (!is_child()) {
    BOOST_TEST(in_a_child("a_kernel_does_not_read_the_workers_memory"));
    return;
  }
  const std::vector<std::uint64_t> secret(1 << 16, kMark);
  const Probe reads("reads_an_address",
                    {kernel("reads", 1, 1, with({reinterpret_cast<std::uint64_t>(secret.data() + 4096)}))});
  reads.clear();
  const std::string fault = reads.launch();
  if (!fault.empty()) {
    BOOST_TEST_MESSAGE("fate: reading the worker's memory: " << fault);
    return;
  }
  BOOST_TEST_MESSAGE("fate: reading the worker's memory: it was read, value " << reads.results(1)[0]
                                                                              << " where " << kMark << " is");
  BOOST_TEST(reads.results(1)[0] != kMark, "a kernel can read expected values");
}

// The screen refuses what leads to parameters, and what tables lead to is tried by the cheats; this tells how
// much there would be to find.
BOOST_AUTO_TEST_CASE(where_arguments_of_other_launches_lie_is_told) {
  if (!is_child()) {
    BOOST_TEST_MESSAGE(
        "fate: arguments: the search "
        << (in_a_child("where_arguments_of_other_launches_lie_is_told") ? "ended" : "broke off"));
    return;
  }
  const std::uint64_t magic = secret_seed() | 1, mask = secret_seed();
  const Probe carries("arguments", {kernel("carries", 1, 32, with({magic}))});
  for (int i = 0; i < 50; ++i) carries.queue();
  BOOST_REQUIRE(!gpu().wait(deadline_in(kSeconds), "launches with the argument"));
  for (const auto& [kernel_name, reach] :
       std::vector<std::pair<std::string, std::uint64_t>>{{"in_bank_of_parameters", 4096 - 8},
                                                          {"in_bank_of_parameters", 32768},
                                                          {"behind_constants", 32768},
                                                          {"around_parameters", 4096},
                                                          {"around_parameters", 65536},
                                                          {"around_table", 65536},
                                                          {"around_table", 1 << 20},
                                                          {"around_parameters", 1 << 20},
                                                          {"around_table", 16 << 20},
                                                          {"around_parameters", 16 << 20}}) {
    const Probe search("arguments", {kernel(kernel_name, 1, 256, with({magic ^ mask, mask, reach}))});
    search.clear();
    const std::string fault = search.launch();
    BOOST_TEST_MESSAGE("fate: arguments "
                       << kernel_name << " within " << reach << " bytes: "
                       << (fault.empty() ? std::to_string(search.results(1)[0]) + " found" : fault));
    if (!fault.empty()) return;
  }
}

BOOST_AUTO_TEST_SUITE_END()
