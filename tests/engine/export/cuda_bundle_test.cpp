// SPDX-License-Identifier: Apache-2.0
// Whole cuda bundles, from a record to the built project. The machine code is real; the driver only writes
// down what it is asked, so the verifier must find every result wrong.
// long: 120 s, engine/export
// always: headers_that*, several_architectures*
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "engine/export/bundle.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"
#include "support/simulated_evaluator.hpp"
#include "support/triton_kernels.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = CULTIVAR_SOURCE_DIR;
const std::atomic<bool> kNever{false};

struct Run {
  TemporaryFolder folder;
  Runtime runtime;

  // `seeds`: separated by commas.
  Run(const std::string& task, const std::string& seeds, const std::string& workloads,
      const std::string& python = default_python()) {
    runtime.programs = CULTIVAR_BIN_DIR;
    runtime.cache = cuda_test::cache_folder;
    runtime.installation.tasks = kSource / "configs/tasks";
    Simulation simulation;
    simulation.facts = known_device("h100")->facts;
    runtime.evaluator = [simulation](const Config&, const fs::path&) {
      return std::make_unique<SimulatedEvaluator>(simulation);
    };
    const Config config = parse_config(
        "name: run\ntask: " + task + "\ntarget: cuda\nworkloads: " + workloads + "\nseeds: [" + seeds +
            "]\nbudget: {evaluations: " + std::to_string(1 + std::count(seeds.begin(), seeds.end(), ',')) +
            "}\nevaluation: {python: \"" + python + "\"}\n",
        "test", folder.path(), {}, runtime.installation);
    const auto outcome = begin_search(config, folder / "run", runtime, {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    BOOST_REQUIRE_MESSAGE(outcome->best != 0, outcome->reason);
  }

  Expected<ExportReport> exported(const std::vector<std::string>& architectures = {},
                                  const KernelPortfolio* portfolio = nullptr) {
    const auto record = Record::open(folder / "run");
    BOOST_REQUIRE(record);
    return export_bundle({*record, 0, folder / "bundle", runtime, architectures, portfolio});
  }

  // Built as its README says, then verified on the driver that computes nothing.
  CommandResult verified() {
    const std::string bundle = (folder / "bundle").string();
    const auto build = run_command(
        {"sh", "-c", "cmake -S " + bundle + " -B " + bundle + "/build && cmake --build " + bundle + "/build"},
        {.folder = folder.path(), .environment = {}, .deadline_s = 400.0});
    BOOST_REQUIRE_MESSAGE(build.exit == 0, build.out + build.err);
    return run_command(
        {bundle + "/build/verify", "--quick"},
        {.folder = "/", .environment = {{"LD_LIBRARY_PATH", RECORDING_DRIVER}}, .deadline_s = 200.0});
  }
};

// The launcher's few declarations of the driver API, against NVIDIA's header; and its streams are NVIDIA's.
constexpr const char* kSameAsNvidias = R"~(
#include <cuda.h>
#include <cstddef>
#include "attention_forward.hpp"
namespace d = cultivar_export::driver;
static_assert(sizeof(d::TensorMap) == sizeof(CUtensorMap) && alignof(d::TensorMap) >= alignof(CUtensorMap));
static_assert(sizeof(d::Attribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(d::Attribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(d::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(d::LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(d::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(d::LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(d::cluster_dimension == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(d::cooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(d::programmatic_serialization == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(d::max_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(d::nonportable_cluster == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == 2 && CU_POINTER_ATTRIBUTE_IS_MANAGED == 8);
static_assert(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9 && CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_DEVICE == 2);
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 && CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE == 38);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR == 39);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR == 82);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == 97);
void call(CUstream stream) { cultivar_export::AttentionForward()({}, stream); }
)~";

// The first workload, by the launcher itself; and by the bundle's library through the C interface, as
// Cultivar does it (in memory that there is: computed once in prepare) and as PyTorch does (where there is
// none yet).
constexpr const char* kThroughTheInterface = R"~(
#include <dlfcn.h>
#include <sys/mman.h>
#include <cstdio>
#include "attention_forward.hpp"
#include "contender/cultivar_contender.h"
#include "verify/data.hpp"
int main(int, char** argv) {
  const auto& workload = verify_data::workloads.at(0);
  std::vector<void*> places, none;
  for (std::size_t i = 0; i < verify_data::tensors.size(); ++i)
    places.push_back(reinterpret_cast<void*>(0x70000000ULL * (i + 1)));
  none.resize(places.size());
  // Where both find it, so that both say the same.
  void* const workspace = mmap(reinterpret_cast<void*>(0x500000000000), 1 << 20, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (argv[1] == std::string("itself")) {
    cultivar_export::AttentionForward()(verify_data::bind(workload, places), nullptr, workspace);
    return 0;
  }
  void* const library = dlopen(argv[2], RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 4;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
  };
  decltype(&cultivar_contender_prepare) prepare;
  decltype(&cultivar_contender_release) release;
  decltype(&cultivar_contender_last_error) last_error;
  decltype(&cultivar_contender_launch) launch;
  int (*launch_in)(void*, void* const*, void*, void*);
  find(prepare, "cultivar_contender_prepare");
  find(release, "cultivar_contender_release");
  find(last_error, "cultivar_contender_last_error");
  find(launch, "cultivar_contender_launch");
  find(launch_in, "cultivar_export_launch");
  std::vector<cultivar_contender_value> values;
  for (const auto& number : workload.numbers)
    if (number.name != std::string("scale")) values.push_back({number.name, number.value});  // it has a default
  std::vector<std::vector<std::int64_t>> extents, strides;
  std::vector<cultivar_contender_tensor> tensors;
  for (const auto& tensor : verify_data::tensors) {
    auto& extent = extents.emplace_back();
    for (const char* name : tensor.shape) extent.push_back(std::int64_t(workload.number(name)));
    auto& stride = strides.emplace_back(extent.size(), 1);
    for (std::size_t d = extent.size() - 1; d-- > 0;) stride[d] = stride[d + 1] * extent[d + 1];
  }
  const bool cultivars = argv[1] == std::string("cultivar");
  for (std::size_t t = 0; t < extents.size(); ++t)
    tensors.push_back({verify_data::tensors[t].name, verify_data::tensors[t].output, int(extents[t].size()),
                       cultivar::name_of(verify_data::tensors[t].dtype).data(), extents[t].data(),
                       strides[t].data(), cultivars ? places[t] : nullptr});
  if (argv[1] == std::string("transposed")) std::swap(strides[0][0], strides[0][1]);
  if (argv[1] == std::string("longer")) extents[1][1] += 1;
  const cultivar_contender_workload asked{"one", argv[1] == std::string("f32") ? "f32" : "bf16", values.data(),
                                          tensors.data(), std::uint32_t(values.size()),
                                          std::uint32_t(tensors.size()), 0, 0};
  void* handle = nullptr;
  int code = prepare(&asked, &handle);
  if (code == 0) {
    code = cultivars ? launch(handle, places.data(), nullptr) : launch_in(handle, places.data(), workspace, nullptr);
    if (code == 0) release(handle);
  }
  std::fprintf(stderr, "%s", last_error());
  return code;
}
)~";

// A size for which no code was built in: what it is compiled for, and what comes of its check where nothing
// computes.
constexpr const char* kLater = R"~(
#include <cstdio>
#include "late/late.hpp"
#include "late/sources.hpp"
int main() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  cultivar_export::AttentionForward kernel;
  kernel.use(cultivar_export::make_supplier());
  cultivar_export::AttentionForwardArguments call;
  call.B = 1, call.H = 8, call.S_q = 64, call.D = 64, call.window = 16;
  std::printf("built in %d, possible %d\n", kernel.accepts(call), kernel.could_accept(call));
  const cultivar_export::Wanted wanted = kernel.wanted(call);
  std::string code, trouble;
  bool lasts = true;
  late::compile(wanted, late::sources(wanted.kernel), "/tmp", 60, code, trouble, lasts);
  std::printf("%s for %s: %s%s\n", wanted.name.c_str(), wanted.architecture.c_str(), code.substr(0, 4).c_str(), trouble.c_str());
  try {
    kernel.prepare(call);
    std::printf("used\n");
  } catch (const cultivar_export::Unsupported& error) {
    std::printf("%s\n", error.what());
  }
}
)~";

// Every workload by the launcher of several kernels, in a workspace of the size that it asks for.
constexpr const char* kEachInTurn = R"~(
#include <cstdio>
#include <cstdlib>
#include <string>
#include "softmax.hpp"
#include "verify/data.hpp"
int main() {
  cultivar_export::Softmax kernel;
  for (const auto& workload : verify_data::workloads) {
    const auto arguments = verify_data::bind(
        workload, {reinterpret_cast<void*>(0x70000000), reinterpret_cast<void*>(0xe0000000)});
    const std::size_t bytes = kernel.prepare(arguments);
    std::printf("%s %zu\n", kernel.kernel_for(arguments), bytes);
    void* const workspace = bytes ? std::aligned_alloc(256, bytes) : nullptr;
    kernel(arguments, nullptr, workspace);
    std::free(workspace);
  }
}
)~";

// Bytes of each argument of each kernel of a seed's plan, for the driver that records.
std::string argument_sizes(const fs::path& seed) {
  const Task task = load_task(kSource / "configs/tasks/attention_forward");
  const Variant variant = load_variant(seed, task);
  const auto plan =
      make_plan(variant, task, task.workloads("quick")->workloads.front(), known_device("h100")->facts);
  BOOST_REQUIRE(plan);
  std::string text;
  for (const PlannedKernel& kernel : plan->kernels) {
    text += kernel.kernel + "=";
    for (const PlannedArgument& argument : kernel.args)
      text += std::to_string(argument_bytes(argument)) + ",";
    text.back() = ';';
  }
  return text;
}

// The launches of recorded calls without their arguments, which hold addresses.
std::string launches(const std::string& calls) {
  std::string found;
  std::istringstream lines(calls);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("launch ")) continue;
    std::istringstream words(line);
    std::string word;
    for (int w = 0; w < 10 && words >> word; ++w) found += word + " ";
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_bundle, *cuda_test::needs_nvrtc())

BOOST_AUTO_TEST_CASE(the_hopper_seed_becomes_a_project_that_builds_and_whose_verifier_sees_what_is_wrong) {
  Run run("attention_forward", "cuda_wgmma", "quick");
  const auto report = run.exported();
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  const fs::path bundle = run.folder / "bundle";
  const auto facts = nlohmann::json::parse(read_text(bundle / "bundle.json"));
  BOOST_TEST(facts["target"] == "cuda");
  BOOST_TEST(facts["architectures"] == nlohmann::json({"sm_90a"}));
  BOOST_TEST(facts["specialisations"].size() ==
             6U);  // of `quick` two; and D 64 and 256, where it was checked
  for (const std::string& name : facts["specialisations"].get<std::vector<std::string>>()) {
    const std::string code = read_text(bundle / "cubin" / (name + ".sm_90a.cubin"));
    const auto cubin = read_cubin(std::as_bytes(std::span(code)));
    BOOST_REQUIRE_MESSAGE(cubin, (cubin ? "" : cubin.error().message));
    BOOST_TEST(cubin->architecture == 90);
    BOOST_TEST(cubin->kernel("attention_forward") != nullptr);
  }
  for (const char* file : {"kernel.cu", "attention_forward.hpp", "README.md", "TABLE.md", "environment.json",
                           "lineage.md", "LICENSE", "verify/reference.cpp"})
    BOOST_TEST(fs::exists(bundle / file), file);
  BOOST_TEST(contains(read_text(bundle / "README.md"), "It needs a GPU of sm_90a"));
  BOOST_TEST(contains(read_text(bundle / "README.md"), "The license of `kernel.cu` is not stated"));
  BOOST_TEST(
      contains(read_text(bundle / "README.md"), ", the hand-written seed `cuda_wgmma.cu`, as given: "));

  if (const fs::path include = cuda_test::toolkit()->includes.at(0); fs::exists(include / "cuda.h")) {
    write_text(run.folder / "abi.cpp", kSameAsNvidias);
    const auto same = run_command({"g++", "-std=c++20", "-fsyntax-only", "-I" + bundle.string(),
                                   "-isystem" + include.string(), (run.folder / "abi.cpp").string()});
    BOOST_TEST(same.exit == 0, same.err);
  }

  const auto verified = run.verified();
  BOOST_TEST(verified.exit == 1, verified.err);
  BOOST_TEST(contains(verified.out, "WRONG"), verified.out);
  BOOST_TEST(contains(verified.out, "B1_H16_Sq1024_D128_causal_bf16"), verified.out);

  // The shared library asks the driver for what the launcher does.
  const std::string root = bundle.string();
  const std::string library =
      bundle / "build" / ("librun_" + facts["id"].get<std::string>().substr(0, 8) + ".so");
  BOOST_REQUIRE_MESSAGE(fs::exists(library), library);
  write_text(run.folder / "through.cpp", kThroughTheInterface);
  const auto compiled =
      run_command({"g++", "-std=c++20", "-I" + root, "-I" + root + "/verify",
                   (run.folder / "through.cpp").string(), root + "/verify/evaluators/dtype/dtype.cpp",
                   root + "/build/libattention_forward.a", "-ldl", "-o", (run.folder / "through").string()},
                  {.folder = run.folder.path(), .environment = {}, .deadline_s = 200.0});
  BOOST_REQUIRE_MESSAGE(compiled.exit == 0, compiled.err);
  const std::string sizes = argument_sizes(kSource / "configs/tasks/attention_forward/seeds/cuda_wgmma.cu");
  std::string calls;
  const auto through = [&](const std::string& how, std::map<std::string, std::string> environment = {}) {
    fs::remove(run.folder / "calls");
    environment["LD_LIBRARY_PATH"] = RECORDING_DRIVER;
    environment["RECORDED_DRIVER_CALLS"] = run.folder / "calls";
    environment["RECORDED_DRIVER_ARGUMENTS"] = sizes;
    const auto result = run_command({(run.folder / "through").string(), how, library},
                                    {.folder = run.folder.path(), .environment = environment});
    calls = fs::exists(run.folder / "calls") ? read_text(run.folder / "calls") : "";
    return result;
  };
  BOOST_TEST(through("itself").exit == 0);
  const std::string itself = calls;
  BOOST_TEST(contains(itself, "launch attention_forward"), itself);
  const auto for_pytorch = through("pytorch");
  BOOST_TEST(for_pytorch.exit == 0, for_pytorch.err);
  BOOST_TEST(calls == itself);
  const auto for_cultivar = through("cultivar");
  BOOST_TEST(for_cultivar.exit == 0, for_cultivar.err);
  BOOST_TEST(launches(calls) == launches(itself) + launches(itself));  // once in prepare

  for (const auto& [how, code, words] :
       {std::tuple{"f32", 1, "built for bf16, but the dtype is f32"},
        {"transposed", 2, "q is not contiguous"},
        {"longer", 2, "k has 1025 elements along S_kv, but must have 1024"}}) {
    const auto refused = through(how);
    BOOST_TEST(refused.exit == code, how);
    BOOST_TEST(contains(refused.err, words), refused.err);
    BOOST_TEST(calls.empty());
  }
  const auto elsewhere = through("pytorch", {{"RECORDED_DRIVER_CAPABILITY", "8"}});
  BOOST_TEST(elsewhere.exit == 2);
  BOOST_TEST(contains(elsewhere.err, "built for sm_90a, but this GPU is sm_80"), elsewhere.err);

  write_text(run.folder / "later.cpp", kLater);
  const auto built_later = run_command(
      {"g++", "-std=c++20", "-I" + root, "-DSOURCE_FOLDER=\"" + root + "\"",
       (run.folder / "later.cpp").string(), root + "/build/libattention_forward_late.a",
       root + "/build/libattention_forward.a", "-ldl", "-pthread", "-o", (run.folder / "later").string()},
      {.folder = run.folder.path(), .environment = {}, .deadline_s = 200.0});
  BOOST_REQUIRE_MESSAGE(built_later.exit == 0, built_later.err);
  const auto later = [&](std::map<std::string, std::string> environment = {}) {
    environment["LD_LIBRARY_PATH"] = RECORDING_DRIVER;
    environment["CULTIVAR_EXPORT_CACHE"] = run.folder / "kept";
    const auto said =
        run_command({(run.folder / "later").string()},
                    {.folder = run.folder.path(), .environment = environment, .deadline_s = 200.0});
    BOOST_TEST(said.exit == 0, "exit " << said.exit << ": " << said.out << said.err);
    return said.out;
  };
  const std::string nvrtc = cuda_test::toolkit()->library;
  const std::string compiled_later = later({{"CULTIVAR_EXPORT_NVRTC", nvrtc}});
  BOOST_TEST(
      compiled_later.starts_with("built in 0, possible 1\nD64_causal0_windowed1_capped0 for sm_90a: \x7f"
                                 "ELF\n"),
      compiled_later);
  BOOST_TEST(contains(compiled_later, "could not be added: it did not pass its check: FAILED: "),
             compiled_later);
  BOOST_TEST(fs::is_empty(run.folder / "kept"));
  BOOST_TEST(contains(later({{"CULTIVAR_EXPORT_NVRTC", "/nowhere/libnvrtc.so"}}),
                      "NVRTC cannot be loaded from CULTIVAR_EXPORT_NVRTC=/nowhere/libnvrtc.so"));

  // Its test says why it has nothing to run on; a Python that has PyTorch has no GPU here.
  const auto tested = run_command({"python3", root + "/pytorch/test_cultivar_attention_forward.py"},
                                  {.folder = "/", .environment = {}, .deadline_s = 120.0});
  if (!fs::exists("/dev/nvidiactl")) {
    BOOST_TEST(tested.exit == 77);
    BOOST_TEST(contains(tested.out, "skipped: "), tested.out + tested.err);
  }
}

BOOST_AUTO_TEST_CASE(headers_that_seeds_share_lie_beside_the_exported_kernel) {
  Run run("linear", "cuda_skinny", "decode");
  const auto report = run.exported();
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  const Task task = load_task(kSource / "configs/tasks/linear");
  const Variant seed = load_variant(task.folder / "seeds/cuda_skinny.cu", task);
  BOOST_REQUIRE(!seed.manifest.headers.empty());
  for (const std::string& header : seed.manifest.headers)
    BOOST_TEST(fs::exists(run.folder / "bundle" / header), header);
  BOOST_TEST(load_variant(run.folder / "bundle/kernel.cu", task).source == seed.source);
}

// Its verifier, on a driver that computes nothing, asks for what the compiler decided; no Triton is asked.
BOOST_AUTO_TEST_CASE(a_kernel_in_triton_is_exported_as_machine_code_with_its_source,
                     *triton_test::needs_triton()) {
  Run run("softmax", "triton_rows", "quick", triton_test::python()->executable);
  const auto report = run.exported();
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  const fs::path bundle = run.folder / "bundle";
  const Task task = load_task(kSource / "configs/tasks/softmax");
  BOOST_TEST(load_variant(bundle / "kernel.py", task).source ==
             load_variant(task.folder / "seeds/triton_rows.py", task).source);
  BOOST_TEST(contains(read_text(bundle / "README.md"), "not a kernel in Triton"));
  BOOST_TEST(contains(read_text(bundle / "softmax.hpp"), "Triton 3."));
  const auto facts = nlohmann::json::parse(read_text(bundle / "bundle.json"));
  for (const std::string& name : facts["specialisations"].get<std::vector<std::string>>()) {
    const std::string code = read_text(bundle / "cubin" / (name + ".sm_90a.cubin"));
    const auto cubin = read_cubin(std::as_bytes(std::span(code)));
    BOOST_REQUIRE_MESSAGE(cubin, (cubin ? "" : cubin.error().message));
    BOOST_TEST(cubin->kernel("softmax_rows")->parameters.size() == 3U);
  }
  const auto verified = run.verified();
  BOOST_TEST(verified.exit == 1, verified.err);
  BOOST_TEST(contains(verified.out, "WRONG"), verified.out);
}

BOOST_AUTO_TEST_CASE(several_architectures_travel_together_and_one_that_lacks_an_instruction_is_an_error) {
  Run softmax("softmax", (kSource / "tests/kernels/cuda/honest_softmax.cu").string(), "cpu_quick");
  const auto report = softmax.exported({"sm_80", "sm_90a", "sm_100a"});
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100a"})
    BOOST_TEST(fs::exists(softmax.folder / ("bundle/cubin/any." + std::string(architecture) + ".cubin")),
               architecture);

  Run hopper("attention_forward", "cuda_wgmma", "quick");
  const auto refused = hopper.exported({"sm_80"});
  BOOST_REQUIRE(!refused);
  BOOST_TEST(contains(refused.error().message, "does not compile for sm_80"), refused.error().message);
  BOOST_CHECK_THROW((void)hopper.exported({"sm_12"}), MissingError);
  BOOST_TEST(!fs::exists(hopper.folder / "bundle"));
  BOOST_TEST(!fs::exists(hopper.folder / ".bundle.partial"));
}

BOOST_AUTO_TEST_CASE(several_kernels_behind_one_entry_are_launched_by_the_table) {
  const fs::path kernels = kSource / "tests/kernels/cuda";
  Run run("softmax", (kernels / "honest_softmax.cu").string() + ", " + (kernels / "two_kernels.cu").string(),
          "cpu_quick");
  const Task task = load_task(kSource / "configs/tasks/softmax");
  KernelPortfolio portfolio;
  portfolio.best = 1;
  for (const Workload& workload : task.workloads("cpu_quick")->workloads)
    portfolio.entries.push_back({workload.name, portfolio.entries.size() == 1 ? 2 : 1, 0.0, 0.0, 0.0});
  const auto report = run.exported({}, &portfolio);
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  BOOST_TEST(report->ids == (std::vector<IndividualId>{1, 2}), boost::test_tools::per_element());
  const auto verified = run.verified();  // on a driver that computes nothing
  BOOST_TEST(verified.exit == 1, verified.err);
  BOOST_TEST(contains(verified.out, "portfolio of 2 kernels on "), verified.out);

  const std::string bundle = (run.folder / "bundle").string(), program = (run.folder / "turns").string();
  write_text(run.folder / "turns.cpp", kEachInTurn);
  const auto built = run_command(
      {"g++", "-std=c++20", "-I" + bundle, "-I" + bundle + "/verify", (run.folder / "turns.cpp").string(),
       bundle + "/verify/evaluators/dtype/dtype.cpp", bundle + "/build/libsoftmax.a", "-ldl", "-o", program},
      {.folder = run.folder.path(), .environment = {}, .deadline_s = 200.0});
  BOOST_REQUIRE_MESSAGE(built.exit == 0, built.err);
  const auto turns =
      run_command({program}, {.folder = run.folder.path(),
                              .environment = {{"LD_LIBRARY_PATH", RECORDING_DRIVER},
                                              {"RECORDED_DRIVER_CALLS", run.folder / "calls"}}});
  BOOST_TEST(turns.exit == 0, turns.err);
  std::istringstream lines(turns.out), calls(launches(read_text(run.folder / "calls")));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const bool second = line.starts_with("2 ");
    names.push_back(line.substr(0, 1));
    BOOST_TEST((line == "1 0") == !second, line);  // only the second has a workspace
  }
  BOOST_TEST(names == (std::vector<std::string>{"1", "2", "1"}), boost::test_tools::per_element());
  std::vector<std::string> launched;
  for (std::string word, last; calls >> word; last = word)
    if (last == "launch") launched.push_back(word);
  BOOST_TEST(launched == (std::vector<std::string>{"softmax", "row_statistics", "scale_rows", "softmax"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
