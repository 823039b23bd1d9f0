// SPDX-License-Identifier: Apache-2.0
// The exported cuda launcher is compiled and run on a driver that only writes down what it is asked; that
// must be the plan that the judge would launch, for every workload.
// long: 40 s, engine/export, evaluators/launchers, evaluators/devices/cuda
#include "evaluators/devices/cuda/launcher.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "engine/export/verify_shapes.hpp"
#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/code/tensor_map.hpp"
#include "evaluators/devices/device.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = CULTIVAR_SOURCE_DIR;

constexpr std::uint64_t tensor_place(std::size_t index) {
  return 0x7000'0000ULL * (index + 1);
}

// Calls the launcher with tensors at tensor_place(). A second argument: "given", in a workspace of its own;
// "defaults", without what attention has defaults for; "null", without a tensor; "misplaced", with one that
// begins at an odd place; "inside": with one in another; "elsewhere": in another context; "forgotten" and
// "huge": its size B; "many": softmax's R; "larger": more elements than offsets of 32 bits reach.
constexpr const char* kMain = R"(
#include "launcher.hpp"
#include "data.hpp"
#include <cstdio>
#include <cstdlib>
#include <string>
int main(int, char** argv) {
  try {
    cultivar_export::CLASS kernel;
    std::vector<void*> places;
    for (std::size_t i = 0; i < verify_data::tensors.size(); ++i)
      places.push_back(reinterpret_cast<void*>(0x70000000ULL * (i + 1)));
    const std::string how = argv[2] == nullptr ? "" : argv[2];
    if (how == "null") places.at(1) = nullptr;
    if (how == "misplaced") places.at(0) = static_cast<char*>(places.at(0)) + 32;
    if (how == "inside") places.back() = static_cast<char*>(places.at(0)) + 64;
    if (how == "elsewhere") cultivar_export::driver::api().CtxSetCurrent(&places);
    auto arguments = verify_data::bind(verify_data::workloads.at(std::size_t(std::atoi(argv[1]))), places);
    const auto leave_out = [](auto& all) {
      if constexpr (requires { all.scale.reset(); all.H_kv.reset(); all.S_kv.reset(); })
        all.scale.reset(), all.H_kv.reset(), all.S_kv.reset();
    };
    if (how == "defaults") leave_out(arguments);
    const auto resize = [](auto& all, long long size) {
      if constexpr (requires { all.B = 0; }) all.B = size;
    };
    const auto lengthen = [](auto& all) {
      if constexpr (requires { all.R = 0; }) all.R = 20000;
    };
    if (how == "many") lengthen(arguments);
    const auto enlarge = [](auto& all) {
      if constexpr (requires { all.R = 0; }) all.R = 1 << 20, all.C = 2048;
    };
    if (how == "larger") enlarge(arguments);
    if (how == "larger" && kernel.accepts(arguments)) std::printf("accepted");
    if (how == "later" || how == "captured") {
      // Of softmax in rows: no code was built in for an odd number of columns.
      struct Given : cultivar_export::Supplier {
        std::shared_ptr<const cultivar_export::Supplied> supply(const cultivar_export::Wanted& wanted, std::string&) override {
          std::printf("wanted %s for %s:", wanted.name.c_str(), wanted.architecture.c_str());
          for (const auto& macro : wanted.macros) std::printf(" %s", macro.c_str());
          std::printf("\n");
          auto code = std::make_shared<cultivar_export::Supplied>();
          code->image = "\x7f" "ELF that came later";
          return code;
        }
      };
      const auto widen = [](auto& all) {
        if constexpr (requires { all.C = 0; }) all.C = 5001;
      };
      widen(arguments);
      std::printf("built in %d, possible %d\n", kernel.accepts(arguments), kernel.could_accept(arguments));
      kernel.use(std::make_shared<Given>());
      kernel(arguments);
      kernel(arguments);
      std::printf("%s, %d calls\n", kernel.specialisation_for(arguments), int(kernel.calls().supplied));
      return 0;
    }
    if (how == "forgotten") resize(arguments, 0);
    if (how == "huge") resize(arguments, 1LL << 40);
    if (how != "given") {
      kernel(arguments);
      return 0;
    }
    const std::size_t bytes = kernel.prepare(arguments);
    void* const workspace = std::aligned_alloc(256, bytes);
    std::printf("alloc %llu %zu", (unsigned long long)(workspace), bytes);
    kernel(arguments, nullptr, workspace);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
)";

template <class T>
std::string listed(const T& values) {
  std::ostringstream text;
  std::size_t i = 0;
  for (const auto& value : values) text << (i++ ? "," : "") << value;
  return i ? text.str() : "-";
}

template <class T>
std::string hex_of(const T& value) {
  std::string text;
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (const unsigned char b : bytes) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", b);
    text += two;
  }
  return text;
}

// What a driver would be asked for a plan whose workspaces lie at `workspaces`.
std::vector<std::string> calls_of(const Plan& plan, const std::vector<std::uint64_t>& workspaces) {
  std::vector<std::uint64_t> places;
  for (std::size_t b = 0, w = 0; b < plan.buffers.size(); ++b)
    places.push_back(plan.buffers[b].use == PlannedBuffer::Use::workspace ? workspaces.at(w++)
                                                                          : tensor_place(b));
  std::vector<std::string> calls;
  for (std::size_t m = 0; m < plan.tensor_maps.size(); ++m) {
    const PlannedTensorMap& map = plan.tensor_maps[m];
    const auto a = tensor_map_arguments(map);
    BOOST_REQUIRE_MESSAGE(a, (a ? "" : a.error().message));
    std::ostringstream line;
    line << "map " << m + 1 << " " << a->data_type << " " << a->rank << " "
         << places.at(static_cast<std::size_t>(map.buffer)) << " " << listed(map.sizes) << " "
         << listed(map.stride_bytes) << " " << listed(map.box) << " " << listed(map.element_strides) << " "
         << a->interleave << " " << a->swizzle << " " << a->l2_promotion << " " << a->out_of_bounds;
    calls.push_back(line.str());
  }
  for (std::size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].use == PlannedBuffer::Use::workspace && plan.buffers[b].zero)
      calls.push_back("set " + std::to_string(places[b]) + " 0 " + std::to_string(plan.buffers[b].bytes));
  std::map<std::string, std::size_t> most_shared;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlannedKernel& kernel = plan.kernels[k];
    const Geometry g(kernel.launch);
    std::ostringstream line;
    line << "launch " << kernel.kernel << " " << listed(g.grid) << " " << listed(g.block) << " "
         << listed(g.cluster) << " " << g.shared_bytes << " " << g.cooperative << " "
         << (g.programmatic_dependent && k > 0) << " " << g.shared_bytes << " "
         << !cluster_is_portable(kernel);
    for (const PlannedArgument& argument : kernel.args) {
      line << " ";
      if (argument.kind == PlannedArgument::Kind::tensor_map) {
        line << hex_of(std::uint64_t(argument.index) + 1);
      } else if (argument.kind == PlannedArgument::Kind::buffer) {
        line << hex_of(places.at(static_cast<std::size_t>(argument.index)));
      } else {
        std::vector<std::byte> bytes(size_of(argument.type));
        encode(argument.type, {&argument.value, 1}, bytes);
        for (const std::byte b : bytes) line << hex_of(b);
      }
    }
    calls.push_back(line.str());
  }
  return calls;
}

struct Launcher {
  TemporaryFolder folder;
  Task task;
  Variant variant;
  Facts facts = known_device("h100")->facts;
  std::vector<Workload> workloads;
  std::vector<Specialisation> served;

  // Builds the exported launcher of a source; `sets` are workload sets of the task.
  // `chosen`: what the compiler decided for a specialization.
  Launcher(const std::string& source, const std::string& task_name, const std::vector<std::string>& sets,
           LaunchChoices (*chosen)(std::size_t) = nullptr)
      : task(load_task(kSource / "configs/tasks" / task_name)), variant(made(source)) {
    for (const std::string& set : sets)
      for (const Workload& w : task.workloads(set)->workloads)
        if (claims(variant, task, w) && (workloads.empty() || workloads.front().dtype == w.dtype))
          workloads.push_back(w);
    BOOST_REQUIRE(!workloads.empty());
    const LauncherInput input{task, variant, facts, workloads};
    served = specialisations(input);
    std::vector<CubinFile> cubins;
    fs::create_directories(folder / "cubin");
    for (std::size_t s = 0; s < served.size(); ++s) {
      cubins.push_back(
          {s, "sm_90a", served[s].suffix + ".sm_90a.cubin", chosen != nullptr ? chosen(s) : LaunchChoices{}});
      write_text(folder / ("cubin/" + cubins.back().name),
                 "\x7f"
                 "ELF and no more");
    }
    const auto header = cuda_launcher_header(input, served, cubins);
    BOOST_REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
    write_text(folder / "launcher.hpp", *header);
    write_text(folder / "cubins.cpp", cuda_cubin_source(variant, cubins));
    const auto data = verify_data(input);
    BOOST_REQUIRE_MESSAGE(data, (data ? "" : data.error().message));
    write_text(folder / "data.hpp", *data);
    std::string main = kMain;
    main.replace(main.find("CLASS"), 5, pascal_case(task.name));
    write_text(folder / "main.cpp", main);
    const std::string root = folder.path().string(), installation = kSource.string();
    const auto build =
        run_command({"g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-I" + installation,
                     "-I" + installation + "/evaluators/references", "-DCUBIN_FOLDER=\"" + root + "/cubin\"",
                     root + "/main.cpp", root + "/cubins.cpp", installation + "/evaluators/dtype/dtype.cpp",
                     "-ldl", "-o", root + "/main"},
                    {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
    BOOST_REQUIRE_MESSAGE(build.exit == 0, build.err + build.out);
  }

  Variant made(const std::string& source) {
    auto variant_made = make_variant(source, task);
    BOOST_REQUIRE_MESSAGE(variant_made, (variant_made ? "" : variant_made.error().text()));
    return std::move(*variant_made);
  }

  Plan plan(const Workload& workload) const {
    const auto made_plan = make_plan(variant, task, workload, facts);
    BOOST_REQUIRE_MESSAGE(made_plan, (made_plan ? "" : made_plan.error().message));
    return *made_plan;
  }

  // What the launcher asks of the driver for a workload: allocations, and all else.
  struct Calls {
    std::vector<std::string> allocations, others;
    CommandResult result;
  };
  Calls calls(std::size_t workload, std::map<std::string, std::string> environment = {},
              const std::string& in_given_workspace = "") {
    std::map<std::string, std::string> bytes;
    for (const PlannedKernel& kernel : plan(workloads[workload]).kernels) {
      std::vector<std::size_t> each;
      for (const PlannedArgument& argument : kernel.args) each.push_back(argument_bytes(argument));
      bytes[kernel.kernel] = listed(each);
    }
    std::string told;
    for (const auto& [name, list] : bytes) told += name + "=" + list + ";";
    const fs::path file = folder / "calls";
    fs::remove(file);
    environment["LD_LIBRARY_PATH"] = RECORDING_DRIVER;
    environment["RECORDED_DRIVER_CALLS"] = file.string();
    environment["RECORDED_DRIVER_ARGUMENTS"] = told;
    Calls made_calls;
    std::vector<std::string> command = {(folder / "main").string(), std::to_string(workload)};
    if (!in_given_workspace.empty()) command.push_back(in_given_workspace);
    made_calls.result =
        run_command(command, {.folder = folder.path(), .environment = environment, .deadline_s = 60.0});
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      (line.starts_with("alloc") ? made_calls.allocations : made_calls.others).push_back(line);
    return made_calls;
  }

  void check_every_workload() {
    for (std::size_t w = 0; w < workloads.size(); ++w) check(w, calls(w));
  }

  void check(std::size_t w, const Calls& asked) {
    BOOST_TEST_INFO_SCOPE(workloads[w].name);
    BOOST_REQUIRE_MESSAGE(asked.result.exit == 0, asked.result.err);
    const Plan expected = plan(workloads[w]);
    std::vector<std::uint64_t> places;
    std::uint64_t at = 0, total = 0;
    if (!asked.allocations.empty()) {
      std::istringstream allocation(asked.allocations.front());
      std::string word;
      allocation >> word >> at >> total;
    }
    const std::uint64_t begin = at;
    for (const PlannedBuffer& buffer : expected.buffers)
      if (buffer.use == PlannedBuffer::Use::workspace) {
        places.push_back(at);
        at += (buffer.bytes + 255) / 256 * 256;
      }
    BOOST_TEST(at - begin <= total);
    BOOST_TEST(asked.others == calls_of(expected, places), boost::test_tools::per_element());
  }
};

std::string text_of(const std::string& file) {
  return read_text(kSource / file);
}

// Nothing that a plan can say is left out here.
constexpr const char* kEverything = R"~(/*--- cultivar
name: everything
task: softmax
target: cuda
about: "Every field of a plan, for show"
requires: "dtype == f32 && C % 4 == 0"
tunables:
  WIDE: {values: [16, 32], default: 32}
  DEAL: {values: [blocks, turns], default: turns}
constraints: ["WIDE <= smem_max"]
specialize: [dtype, wide, columns]
let:
  columns: "C / WIDE"
  wide: "columns > 128"
  whole: "DEAL == DEAL_turns ? num_sms : R"  # names that the launcher has, too
  sizes: "whole"
  chosen: "R * 3 + 1"
workspace:
  odd: {bytes: chosen}
  ticket: {bytes: 4, zero: true}
  more: {bytes: "compute_capability * 100", zero: true}
tensor_maps:
  one: {tensor: x, sizes: ["R * C"], strides: [], box: [WIDE]}
  two: {tensor: y, sizes: [C, R], strides: [C], box: [32, 8], element_strides: [1, 2], swizzle: 128B,
        l2_promotion: 256B, out_of_bounds: nan}
  three: {tensor: x, sizes: [4, "C / 4", R], strides: [4, C], box: [4, 2, 1], interleave: 16B}
launch:
  - kernel: first
    grid: [sizes, 2, 3]
    block: [WIDE, 4, 2]
    shared: "smem_max - 1024"
    cooperative: true
    programmatic_dependent: true
    args: [x, one, odd, R, {value: "0.5 / C", type: f64}, {value: "R * 1e6", type: i64}, {value: "-C", type: i16},
           {value: 3.14159, type: bf16}, {value: "1 / 3", type: f16}, {value: 200, type: u8}, ticket, more,
           {value: "R * 3", type: i16}]
  - kernel: second
    grid: ["round_up(R, 16)", 1, 1]
    block: [128, 1, 1]
    cluster: [16, 1, 1]
    programmatic_dependent: true
    args: [two, y, {value: "sqrt(C)", type: f32}, three]
---*/
extern "C" __global__ void first() {}
extern "C" __global__ void second() {}
)~";

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_launcher)

BOOST_AUTO_TEST_CASE(code_that_was_not_built_in_is_asked_for_once_and_never_while_a_graph_is_captured) {
  Launcher launcher(read_source(kSource / "configs/tasks/softmax/seeds/cuda_rows.cu"), "softmax", {"quick"});
  const auto later = launcher.calls(0, {}, "later");
  BOOST_TEST(later.result.exit == 0, later.result.err);
  BOOST_TEST(later.result.out.starts_with("built in 0, possible 1\nwanted PER4_ALIGNED0 for sm_90a: "),
             later.result.out);
  for (const char* macro : {" PER=4", " ALIGNED=0", " DTYPE=__nv_bfloat16", " DTYPE_BF16=1"})
    BOOST_TEST(later.result.out.find(macro) != std::string::npos, macro << " is not in " << later.result.out);
  BOOST_TEST(later.result.out.ends_with("PER4_ALIGNED0, 2 calls\n"), later.result.out);
  BOOST_TEST(std::count_if(later.others.begin(), later.others.end(),
                           [](const auto& call) { return call.starts_with("launch"); }) == 2);

  const auto captured = launcher.calls(0, {{"RECORDED_DRIVER_CAPTURES", "1"}}, "captured");
  BOOST_TEST(captured.result.exit == 3);
  BOOST_TEST(captured.result.err.find(
                 "nothing is compiled while a CUDA graph is captured: call once before the capture") !=
                 std::string::npos,
             captured.result.err);
  BOOST_TEST(captured.result.out.find("wanted") == std::string::npos);

  const auto old = launcher.calls(0, {{"RECORDED_DRIVER_IS_OLD", "1"}});
  BOOST_TEST(old.result.exit == 3);
  BOOST_TEST(
      old.result.err.starts_with("loading the machine code (NVRTC) with a driver of CUDA 12.0: CUDA_ERROR"),
      old.result.err);
}

BOOST_AUTO_TEST_CASE(the_hopper_seed_asks_the_driver_for_its_plan_with_four_maps_of_rank_4) {
  Launcher launcher(text_of("configs/tasks/attention_forward/seeds/cuda_wgmma.cu"), "attention_forward",
                    {"quick", "avo_mha", "holdout"});
  BOOST_TEST(launcher.served.size() == 2U);  // with and without the mask
  BOOST_TEST(launcher.plan(launcher.workloads.front()).tensor_maps.size() == 4U);
  launcher.check_every_workload();
}

BOOST_AUTO_TEST_CASE(a_plain_kernel_one_with_clusters_and_one_of_two_kernels_ask_for_their_plans) {
  for (const char* name : {"honest_softmax", "cluster_sum", "two_kernels"}) {
    BOOST_TEST_INFO_SCOPE(name);
    Launcher launcher(text_of(std::string("tests/kernels/cuda/") + name + ".cu"), "softmax", {"cpu_quick"});
    launcher.check_every_workload();
  }
}

BOOST_AUTO_TEST_CASE(every_field_of_a_plan_arrives) {
  Launcher launcher(kEverything, "softmax", {"cpu_quick"});
  BOOST_TEST(launcher.served.size() == 3U);  // by the lets that are specialised
  launcher.check_every_workload();
}

BOOST_AUTO_TEST_CASE(in_a_workspace_that_is_given_it_allocates_none_and_asks_for_the_same) {
  Launcher launcher(kEverything, "softmax", {"cpu_quick"});
  for (std::size_t w = 0; w < launcher.workloads.size(); ++w) {
    auto given = launcher.calls(w, {}, "given");
    BOOST_TEST(given.allocations.empty());
    given.allocations = {given.result.out};
    launcher.check(w, given);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_given_has_the_tasks_default_and_a_tensor_that_is_null_is_named) {
  Launcher launcher(text_of("configs/tasks/attention_forward/seeds/cuda_naive.cu"), "attention_forward",
                    {"avo_mha"});
  const std::string header = read_text(launcher.folder / "launcher.hpp");
  for (const char* member : {"std::int64_t B = 0;", "std::optional<std::int64_t> H_kv = std::nullopt;",
                             "default: S_q\n", "bool causal = false;",
                             "std::optional<float> scale = std::nullopt;  // factor applied to the logits; "
                             "default: 1 / sqrt(D)\n"})
    BOOST_TEST(header.find(member) != std::string::npos, member);
  for (std::size_t w = 0; w < launcher.workloads.size(); ++w)
    launcher.check(w, launcher.calls(w, {}, "defaults"));
  const auto null = launcher.calls(0, {}, "null");
  BOOST_TEST(null.result.exit == 3);
  BOOST_TEST(null.result.err ==
             "attention_forward: the tensor k is null: pass the address of its 134217728 bytes\n");
  BOOST_TEST(null.others.empty());
  for (const auto& [how, words] :
       {std::pair("forgotten",
                  "0: it was not set, or a tensor is empty, for which this kernel must not be called"),
        std::pair("huge", "1099511627776, but must be from 1 to 2147483647")}) {
    const auto refused = launcher.calls(0, {}, how);
    BOOST_TEST(refused.result.exit == 3);
    BOOST_TEST(refused.result.err == "attention_forward: B is " + std::string(words) + "\n");
    BOOST_TEST(refused.others.empty());
  }
}

BOOST_AUTO_TEST_CASE(what_is_specialised_stays_apart_however_large_or_odd_its_numbers_are) {
  for (const char* key : {"1000000 + C / 2048", "C / 3"}) {
    BOOST_TEST_INFO_SCOPE(key);
    const std::string source =
        std::string(
            "/*--- cultivar\nname: apart\ntask: softmax\ntarget: cuda\nabout: \"for show\"\n"
            "requires: \"dtype == f32\"\nspecialize: [key]\nlet:\n  key: \"") +
        key +
        "\"\nlaunch:\n  - kernel: apart\n    grid: [1, 1, 1]\n    block: [32, 1, 1]\n"
        "    args: [x, y, R, C]\n---*/\n"
        "extern \"C\" __global__ void apart(const float*, float*, int, int) {}\n";
    Launcher launcher(source, "softmax", {"cpu_quick"});
    std::set<std::string> names;
    for (const Specialisation& each : launcher.served) names.insert(each.suffix);
    BOOST_TEST(names.size() == 3U);
    launcher.check_every_workload();
  }
}

BOOST_AUTO_TEST_CASE(exports_of_several_kernels_go_into_one_program) {
  const std::string softmax = text_of("tests/kernels/cuda/honest_softmax.cu");
  Launcher one(softmax, "softmax", {"cpu_quick"});
  Launcher other(text_of("configs/tasks/attention_forward/seeds/cuda_naive.cu"), "attention_forward",
                 {"quick"});
  std::string renamed = softmax;
  renamed.replace(renamed.find("name: "), 6, "name: another_");
  Launcher same_task(renamed, "softmax", {"cpu_quick"});
  BOOST_TEST(one.variant.id != same_task.variant.id);
  const std::string root = one.folder.path().string();
  write_text(one.folder / "both.cpp", "#include \"" + root + "/launcher.hpp\"\n#include \"" +
                                          (other.folder / "launcher.hpp").string() +
                                          "\"\nint main() { return sizeof(cultivar_export::Softmax) == "
                                          "sizeof(cultivar_export::AttentionForwardArguments); }\n");
  std::vector<std::string> build{"g++",
                                 "-std=c++20",
                                 "-Wall",
                                 "-Werror",
                                 "-DCUBIN_FOLDER=\"" + root + "/cubin\"",
                                 root + "/both.cpp",
                                 root + "/cubins.cpp"};
  const auto built_with = [&](const Launcher& another) {
    const std::string object = (another.folder / "cubins.o").string();
    const auto compiled =
        run_command({"g++", "-c", "-DCUBIN_FOLDER=\"" + (another.folder / "cubin").string() + "\"",
                     (another.folder / "cubins.cpp").string(), "-o", object},
                    {.folder = one.folder.path(), .environment = {}, .deadline_s = 60.0});
    BOOST_TEST(compiled.exit == 0, compiled.err);
    build.push_back(object);
  };
  built_with(other);
  built_with(same_task);
  build.insert(build.end(), {"-ldl", "-o", root + "/both"});
  const auto result =
      run_command(build, {.folder = one.folder.path(), .environment = {}, .deadline_s = 120.0});
  BOOST_TEST(result.exit == 0, result.err);
}

BOOST_AUTO_TEST_CASE(
    tensors_that_overlap_are_too_large_or_lie_elsewhere_are_refused_before_anything_is_asked) {
  Launcher launcher(text_of("tests/kernels/cuda/honest_softmax.cu"), "softmax", {"cpu_quick"});
  const auto says = [&](const std::string& how, const std::string& words,
                        std::map<std::string, std::string> environment = {}) {
    const auto refused = launcher.calls(0, environment, how);
    BOOST_TEST(refused.result.exit == 3, how);
    BOOST_TEST(refused.result.err.find(words) != std::string::npos, refused.result.err);
    BOOST_TEST(refused.others.empty(), how);
    BOOST_TEST(refused.result.out == "");
  };
  says("inside", "bytes from 0x70000040) overlaps the input x (");
  says("larger", "elements, but this kernel was checked only with up to 536870911 in it: split the call\n");
  says("elsewhere",
       "softmax: this object belongs to another CUDA context, that of GPU 0: use one object for each GPU, "
       "and make its "
       "GPU current before a call\n");
  for (const auto& [memory, words] :
       {std::pair("host", "memory of the host"), std::pair("unknown", "no memory that CUDA knows"),
        std::pair("other", "memory of GPU 1")})
    says("",
         "softmax: the tensor x (at 0x70000000) is " + std::string(words) +
             ", but must be memory of GPU 0: copy it there\n",
         {{"RECORDED_DRIVER_MEMORY", memory}});
  launcher.check(0, launcher.calls(0, {{"RECORDED_DRIVER_MEMORY", "managed"}}));
}

BOOST_AUTO_TEST_CASE(what_the_launcher_cannot_do_is_rejected_with_a_message) {
  Launcher launcher(kEverything, "softmax", {"cpu_holdout", "cpu_quick"});  // one of them is not claimed
  BOOST_TEST(launcher.workloads.size() == 3U);
  const auto elsewhere = launcher.calls(0, {{"RECORDED_DRIVER_CAPABILITY", "8"}});
  BOOST_TEST(elsewhere.result.exit == 3);
  BOOST_TEST(elsewhere.result.err.find("built for sm_90a, but this GPU is sm_80") != std::string::npos,
             elsewhere.result.err);
  const auto many = launcher.calls(0, {}, "many");
  BOOST_TEST(many.result.exit == 3);
  BOOST_TEST(many.result.err ==
             "the argument 'R * 3' of a kernel would be 60000.000000 for these sizes, which its type cannot "
             "represent\n");
  const auto misplaced = launcher.calls(0, {}, "misplaced");
  BOOST_TEST(misplaced.result.err ==
             "softmax: the tensor x must be aligned to 64 bytes, but begins at 0x70000020, 32 bytes behind "
             "such a place: "
             "copy it to memory of its own, which cudaMalloc aligns to 256\n");
  BOOST_TEST(misplaced.others.empty());
  const auto no_driver = run_command({(launcher.folder / "main").string(), "0"});
  if (!fs::exists("/usr/local/nvidia/lib64/libcuda.so.1") && no_driver.exit != 0)
    BOOST_TEST(no_driver.err.find("libcuda.so.1") != std::string::npos, no_driver.err);
}

BOOST_AUTO_TEST_CASE(a_kernel_in_triton_gets_the_shared_memory_that_its_compiler_decided) {
  const auto bytes_of = [](std::size_t s) {
    return std::int64_t{1024} * (static_cast<std::int64_t>(s) + 50);
  };
  Launcher triton(
      text_of("configs/tasks/softmax/seeds/triton_rows.py"), "softmax", {"quick", "gpu"}, [](std::size_t s) {
        return LaunchChoices{
            {"softmax_rows", {{"shared", {std::int64_t{1024} * (static_cast<std::int64_t>(s) + 50)}}}}};
      });
  BOOST_TEST_REQUIRE(triton.served.size() >= 2U);
  std::set<std::int64_t> seen;
  for (std::size_t w = 0; w < triton.workloads.size(); ++w) {
    const auto compiled_with = macros(triton.variant, triton.task, triton.workloads[w]);
    const auto served = std::ranges::find(triton.served, compiled_with, &Specialisation::macros);
    BOOST_TEST_REQUIRE((served != triton.served.end()));
    const std::int64_t bytes = bytes_of(static_cast<std::size_t>(served - triton.served.begin()));
    const auto asked = triton.calls(w);
    BOOST_REQUIRE_MESSAGE(asked.result.exit == 0, asked.result.err);
    Plan expected = triton.plan(triton.workloads[w]);
    expected = with_choices(expected, {{"softmax_rows", {{"shared", {bytes}}}}});
    BOOST_TEST(asked.others == calls_of(expected, {}), boost::test_tools::per_element());
    seen.insert(bytes);
  }
  BOOST_TEST(seen.size() >= 2U);  // each specialization has its own
}

BOOST_AUTO_TEST_SUITE_END()
