// Whole cuda bundles, from a record to the built project. The machine code is real; the driver only writes
// down what it is asked, so the verifier must find every result wrong.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/export/bundle.hpp"
#include "support/command.hpp"
#include "support/cuda_kernels.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = CULTIVAR_SOURCE_DIR;
const std::atomic<bool> kNever{false};

struct Run {
  TemporaryFolder folder;
  Surface surface;

  Run(const std::string& task, const std::string& seed, const std::string& workloads) {
    surface.programs = CULTIVAR_BIN_DIR;
    surface.cache = cuda_test::cache_folder;
    surface.installation.tasks = kSource / "configs/tasks";
    Simulation simulation;
    simulation.facts = known_device("h100")->facts;
    surface.evaluator = [simulation](const Config&, const fs::path&) {
      return std::make_unique<SimulatedEvaluator>(simulation);
    };
    const Config config =
        parse_config("name: run\ntask: " + task + "\ntarget: cuda\nworkloads: " + workloads + "\nseeds: [" +
                         seed + "]\nbudget: {evaluations: 1}\n",
                     "test", folder.path(), {}, surface.installation);
    const auto outcome = begin_search(config, folder / "run", surface, {}, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    BOOST_REQUIRE_MESSAGE(outcome->best == 1, outcome->reason);
  }

  Expected<ExportReport> exported(const std::vector<std::string>& architectures = {}) {
    const auto record = Record::open(folder / "run");
    BOOST_REQUIRE(record);
    return export_bundle({*record, 0, folder / "bundle", surface, architectures});
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
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 && CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE == 38);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR == 39);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR == 82);
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == 97);
void call(CUstream stream) { cultivar_export::AttentionForward()({}, stream); }
)~";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
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
  BOOST_TEST(facts["specialisations"].size() == 2U);
  for (const std::string& name : facts["specialisations"].get<std::vector<std::string>>()) {
    const std::string code = read_text(bundle / "cubin" / (name + ".sm_90a.cubin"));
    const auto cubin = read_cubin(std::as_bytes(std::span(code)));
    BOOST_REQUIRE_MESSAGE(cubin, (cubin ? "" : cubin.error().message));
    BOOST_TEST(cubin->architecture == 90);
    BOOST_TEST(cubin->kernel("attention_forward") != nullptr);
  }
  for (const char* file : {"kernel.cu", "attention_forward.hpp", "README.md", "TABLE.md", "environment.json",
                           "lineage.md", "verify/reference.cpp"})
    BOOST_TEST(fs::exists(bundle / file), file);
  BOOST_TEST(contains(read_text(bundle / "README.md"), "It needs a GPU of sm_90a"));
  BOOST_TEST(contains(read_text(bundle / "README.md"), "It is the first seed itself"));

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

BOOST_AUTO_TEST_SUITE_END()
