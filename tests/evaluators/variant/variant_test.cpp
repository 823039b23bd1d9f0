// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/variant.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "evaluators/system/hash.hpp"
#include "evaluators/variant/example.hpp"

using namespace cultivar;
using example::attention;
using example::cpu_facts;
using example::cuda_facts;
using example::replaced;

namespace {

Variant made(const std::string& source, Configuration configuration = {}) {
  auto variant = make_variant(source, attention(), std::move(configuration));
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().message));
  return *std::move(variant);
}
const Workload& workload(const char* set, std::size_t index) {
  return attention().workloads(set)->workloads.at(index);
}
std::string plan_error(const std::string& source, const Facts& facts = cuda_facts) {
  const auto plan = make_plan(made(source), attention(), workload("avo_mha", 0), facts);
  return plan ? "no error" : plan.error().message;
}
void check_plan_error(const std::string& from, const std::string& to, const std::string& expected) {
  const std::string message = plan_error(replaced(example::cuda, from, to));
  BOOST_TEST(message.find(expected) != std::string::npos, message << "  should hold  " << expected);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(variant)

BOOST_AUTO_TEST_CASE(blanks_at_line_ends_and_line_endings_do_not_change_the_identity) {
  const Variant plain = made(example::cpu);
  std::string windows;
  for (const char c : example::cpu) windows += c == '\n' ? std::string("  \r\n") : std::string(1, c);
  BOOST_TEST(made(windows).id == plain.id);
  BOOST_TEST(made(example::cpu + "\n\n  \n").id == plain.id);
  BOOST_TEST(made("\xef\xbb\xbf" + example::cpu).id == plain.id);
  BOOST_TEST(made(example::cpu.substr(0, example::cpu.size() - 1)).id == plain.id);
  BOOST_TEST(made(example::cpu + "int x;\n").id != plain.id);
  BOOST_TEST(made(example::cpu + "int x;\n").source_id != plain.source_id);
  BOOST_TEST(normalised("a \t\r\n\r\nb") == "a\n\nb\n");
  BOOST_TEST(normalised(" \n\n") == "");
}

BOOST_AUTO_TEST_CASE(tunable_values_change_the_identity_but_not_the_source_identity) {
  const Variant plain = made(example::cpu);
  const Variant same = made(example::cpu, {{"TILE", std::int64_t{64}}});
  const Variant other = made(example::cpu, {{"TILE", std::int64_t{32}}});
  BOOST_TEST(same.id == plain.id);
  BOOST_TEST(other.id != plain.id);
  BOOST_TEST(other.source_id == plain.source_id);
  BOOST_TEST(plain.id.size() == 64u);
  BOOST_TEST(to_string(other.manifest.tunables, other.configuration) == "TILE=32 LAYOUT=packed");
}

BOOST_AUTO_TEST_CASE(a_file_can_carry_its_configuration_as_defaults) {
  const Variant plain = made(example::cpu);
  BOOST_TEST(with_own_defaults(plain) == plain.source);
  const Variant other = made(example::cpu, {{"TILE", std::int64_t{32}}});
  const std::string text = with_own_defaults(other);
  BOOST_TEST(text != plain.source);
  BOOST_TEST((made(text).configuration == other.configuration));
  BOOST_TEST(made(text, plain.configuration).manifest.name == plain.manifest.name);
  // Values over several lines, a comment behind, another tunable whose name ends alike.
  const std::string block =
      replaced(example::cpu, "tunables:\n",
               "tunables:\n  MY_TILE: {values: [1, 2], default: 1}  # default: 1\n  LONG:\n"
               "    values: [soft, hard]\n    default: soft\n");
  Configuration all = made(block).configuration;
  all["TILE"] = std::int64_t{32}, all["LONG"] = std::string("hard");
  const Variant set = made(block, all);
  BOOST_TEST((made(with_own_defaults(set)).configuration == all));
  BOOST_TEST(with_own_defaults(set).find("# default: 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_hash_is_sha_256) {
  BOOST_TEST(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

BOOST_AUTO_TEST_CASE(a_value_that_does_not_belong_is_named) {
  const auto wrong = make_variant(example::cpu, attention(), {{"TILE", std::int64_t{48}}});
  BOOST_REQUIRE(!wrong);
  BOOST_TEST(wrong.error().message == "TILE=48 is not one of its values (32, 64)");
  const auto unknown = make_variant(example::cpu, attention(), {{"TILES", std::int64_t{32}}});
  BOOST_REQUIRE(!unknown);
  BOOST_TEST(unknown.error().message.find("unknown tunable 'TILES' (did you mean 'TILE'?") == 0u);
}

BOOST_AUTO_TEST_CASE(a_variant_claims_what_its_requires_says) {
  BOOST_TEST(claims(made(example::cpu), attention(), workload("cpu_quick", 0)));
  BOOST_TEST(!claims(made(example::cpu), attention(), workload("quick", 0)));
  BOOST_TEST(claims(made(example::cuda), attention(), workload("avo_mha", 0)));
  BOOST_TEST(!claims(made(example::cuda), attention(), workload("fa_sweep", 0)));
  BOOST_TEST(claims(made(replaced(example::cpu, "requires: \"dtype == f32\"\n", "")), attention(),
                    workload("quick", 0)));
}

BOOST_AUTO_TEST_CASE(a_variant_that_does_not_name_an_optional_parameter_claims_only_its_default) {
  Workload shape = workload("cpu_quick", 0);
  shape.values["window"] = 64;
  const Variant silent = made(example::cpu);
  BOOST_TEST(!claims(silent, attention(), shape));
  BOOST_TEST(silent.manifest.requires_->text() == "((dtype == f32) && window == 0) && softcap == 0");
  BOOST_TEST((with_configuration(silent, {}).value().manifest == silent.manifest));
  const Variant without = made(replaced(example::cpu, "requires: \"dtype == f32\"\n", ""));
  BOOST_TEST(!claims(without, attention(), shape));
  const Variant named = made(replaced(example::cpu, "dtype == f32", "dtype == f32 && window < 100"));
  BOOST_TEST(claims(named, attention(), shape));
  shape.values["softcap"] = 2;
  BOOST_TEST(!claims(named, attention(), shape));
  // As an argument of a kernel as well.
  const Variant naive = load_variant(
      std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/attention_forward/seeds/naive.cpp",
      attention());
  BOOST_TEST(claims(naive, attention(), shape));
  BOOST_TEST(naive.manifest.requires_->text() == "dtype == f32");
}

BOOST_AUTO_TEST_CASE(a_constraint_that_fails_is_named_with_its_numbers) {
  const Variant large = made(example::cuda, {{"STAGES", std::int64_t{4}}, {"BLOCK_N", std::int64_t{176}}});
  const auto holds = check_constraints(large, attention(), workload("avo_mha", 0), cuda_facts);
  BOOST_REQUIRE(!holds);
  BOOST_TEST(holds.error().message ==
             "the constraint 'smem <= 232448' does not hold: smem=394240 (workload B8_H16_Sq4096_D128_bf16; "
             "BLOCK_M=128 BLOCK_N=176 STAGES=4)");
  BOOST_TEST(
      check_constraints(made(example::cuda), attention(), workload("avo_mha", 0), cuda_facts).has_value());
}

BOOST_AUTO_TEST_CASE(names_of_the_compiler_and_numbers_with_zeros_in_front_are_refused) {
  const auto refused = [](const std::string& from, const std::string& to) {
    const auto variant = make_variant(replaced(example::cpu, from, to), attention());
    return variant ? std::string("accepted") : variant.error().message;
  };
  BOOST_TEST(refused("tunables:", "tunables:\n  __CUDACC__: {values: [1, 2], default: 1}")
                 .find("is reserved for the compiler") != std::string::npos);
  BOOST_TEST(refused("tunables:", "tunables:\n  A: {values: [010, 2], default: 2}").find("leading zeros") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(macros_are_sorted_and_typed) {
  const std::vector<std::string> expected{
      "D=64",         "DTYPE=float", "DTYPE_F32=1", "LAYOUT=LAYOUT_packed", "LAYOUT_packed=1",
      "LAYOUT_row=0", "TILE=64",     "causal=1",    "scale=0.125f"};
  const auto actual = macros(made(example::cpu), attention(), workload("cpu_quick", 1));
  BOOST_TEST(actual == expected, boost::test_tools::per_element());
  const auto cuda = macros(made(example::cuda), attention(), workload("avo_mha", 0));
  BOOST_TEST(std::count(cuda.begin(), cuda.end(), "DTYPE=__nv_bfloat16") == 1);
  BOOST_TEST(std::count(cuda.begin(), cuda.end(), "DTYPE_BF16=1") == 1);
}

BOOST_AUTO_TEST_CASE(a_let_of_shapes_and_tunables_may_be_a_macro) {
  const std::string with = example::replaced(example::cuda, "    let:\n",
                                             "    let:\n      tiles: \"S_kv / BLOCK_N\"\n"
                                             "      far: \"tiles >= 100\"\n      share: \"tiles / 64\"\n");
  const auto of = [&](std::size_t w) {
    return macros(made(example::replaced(with, "[D, causal, dtype]", "[D, causal, dtype, far, share]")),
                  attention(), workload("avo_mha", w));
  };
  const auto has = [](const std::vector<std::string>& all, const char* one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  BOOST_TEST(has(of(0), "far=0"));
  BOOST_TEST(has(of(0), "share=0.5"));
  BOOST_TEST(has(of(3), "far=1"));
  BOOST_TEST(has(of(3), "share=4"));
}

BOOST_AUTO_TEST_CASE(a_specialised_number_reads_back_as_the_same_float) {
  const Variant v = made(example::cpu);
  for (const char* set : {"cpu_quick", "cpu_wide", "fa_sweep"})
    for (const Workload& w : attention().workloads(set)->workloads)
      for (const std::string& macro : macros(v, attention(), w))
        if (macro.starts_with("scale="))
          BOOST_TEST(std::strtof(macro.c_str() + 6, nullptr) == static_cast<float>(w.values.at("scale")));
}

BOOST_AUTO_TEST_CASE(a_cpu_plan_has_every_number_evaluated) {
  const Workload& w = workload("cpu_quick", 1);
  const auto plan = make_plan(made(example::cpu), attention(), w, cpu_facts);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  BOOST_TEST(plan->buffers.size() == 6u);
  BOOST_TEST(plan->buffers[0].bytes == 640u * 16 * 64 * 4);
  BOOST_TEST((plan->buffers[4].use == PlannedBuffer::Use::output));
  BOOST_TEST(plan->buffers[4].bytes == 640u * 16 * 4);
  BOOST_TEST(plan->buffers[5].name == "scratch");
  BOOST_TEST(plan->buffers[5].bytes == 4u * 2 * 64);
  const PlannedKernel& kernel = plan->kernels.at(0);
  BOOST_TEST(kernel.launch.number("threads", 0) == 2);
  BOOST_TEST(kernel.args.size() == 13u);
  using Kind = PlannedArgument::Kind;
  BOOST_TEST((kernel.args[5].kind == Kind::buffer && kernel.args[5].index == 5));
  BOOST_TEST((kernel.args[6].type == Dtype::i32 && kernel.args[6].value == 640));
  BOOST_TEST((kernel.args[7].type == Dtype::i32 && kernel.args[7].value == 1));
  BOOST_TEST((kernel.args[8].type == Dtype::f32 && kernel.args[8].value == 0.125));
  BOOST_TEST((kernel.args[9].type == Dtype::f64 && kernel.args[9].value == 1600));
  BOOST_TEST((kernel.args[10].type == Dtype::i32 && kernel.args[10].value == 64));
  BOOST_TEST((kernel.args[11].kind == Kind::thread && kernel.args[12].kind == Kind::threads));
}

BOOST_AUTO_TEST_CASE(threads_are_the_cores_unless_the_manifest_says) {
  const auto plan = make_plan(made(replaced(example::cpu, "    threads: team\n", "")), attention(),
                              workload("cpu_quick", 0), {{"num_cores", 7}});
  BOOST_REQUIRE(plan);
  BOOST_TEST(plan->kernels.at(0).launch.number("threads", 0) == 7);
}

BOOST_AUTO_TEST_CASE(an_argument_that_does_not_fit_its_type_says_which_would) {
  const auto error = [](const std::string& from, const std::string& to) {
    const auto plan =
        make_plan(made(replaced(example::cpu, from, to)), attention(), workload("cpu_quick", 0), cpu_facts);
    return plan ? "no error" : plan.error().message;
  };
  BOOST_TEST(
      error(", TILE, thread", ", \"TILE / 7\", thread").find("(write {value: \"TILE / 7\", type: f32})") !=
      std::string::npos);
  BOOST_TEST(error(", TILE, thread", ", \"TILE * 2^40\", thread").find("type: i64})") != std::string::npos);
  BOOST_TEST(error(", TILE, thread", ", {value: \"TILE * 2^40\", type: i64}, thread") == "no error");
  BOOST_TEST(error("4 * team * TILE", "TILE / 7")
                 .find("workspace.scratch.bytes: 'TILE / 7': must be a whole number") == 0u);
  BOOST_TEST(error("threads: team", "threads: 0").find("launch[0].threads: '0': must be at least 1") == 0u);
  BOOST_TEST(error("\"num_cores\"", "\"1 / (B - 1)\"")
                 .find("let.team: '1 / (B - 1)': has no value (check for x / 0") == 0u);
}

BOOST_AUTO_TEST_CASE(the_design_example_plans_every_cuda_field) {
  const auto plan = make_plan(made(example::cuda), attention(), workload("avo_mha", 0), cuda_facts);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  const PlannedKernel& kernel = plan->kernels.at(0);
  BOOST_TEST(kernel.launch.three("grid")[0] == 132u);
  BOOST_TEST(kernel.launch.three("block")[0] == 384u);
  BOOST_TEST(kernel.launch.three("cluster")[2] == 1u);
  BOOST_TEST(kernel.launch.number("shared", 0) == (128u + 2 * 2 * 128) * 128 * 2 + 1024);
  BOOST_TEST((kernel.args[0].kind == PlannedArgument::Kind::tensor_map));
  BOOST_TEST(plan->buffers.back().zero);
  const PlannedTensorMap& map = plan->tensor_maps.at(0);
  BOOST_TEST(map.buffer == 0);
  BOOST_TEST((map.dtype == Dtype::bf16));
  BOOST_TEST(map.sizes == (std::vector<std::uint64_t>{128, 16, 4096, 8}), boost::test_tools::per_element());
  BOOST_TEST(map.stride_bytes == (std::vector<std::uint64_t>{256, 4096, 16777216}),
             boost::test_tools::per_element());
  BOOST_TEST(map.box == (std::vector<std::uint32_t>{64, 1, 128, 1}), boost::test_tools::per_element());
  BOOST_TEST(map.element_strides == (std::vector<std::uint32_t>{1, 1, 1, 1}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_illegal_launch_is_refused_with_its_limit) {
  check_plan_error("block: [384, 1, 1]", "block: [384, 4, 1]",
                   "launch[0].block: has 1536 threads; the limit is 1024");
  check_plan_error("block: [384, 1, 1]", "block: [1, 1, 65]", "launch[0].block[2]: 65; the limit is 64");
  check_plan_error("grid: [num_sms, 1, 1]", "grid: [num_sms, 70000, 1]", "launch[0].grid[1]");
  check_plan_error("grid: [num_sms, 1, 1]", "grid: [0, 1, 1]", "must be at least 1");
  check_plan_error("cluster: [1, 1, 1]", "cluster: [8, 4, 1]", "launch[0].cluster: has 32 blocks");
  check_plan_error("cluster: [1, 1, 1]", "cluster: [5, 1, 1]", "132 is not a multiple of the cluster's 5");
  check_plan_error("shared: smem", "shared: \"smem * 2\"", "the limit is 232448");
}

BOOST_AUTO_TEST_CASE(a_group_has_at_most_as_many_work_items_as_the_device_permits) {
  const std::string source =
      "/*--- cultivar\nname: groups\ntask: attention_forward\ntarget: opencl\nrequires: \"dtype == "
      "f32\"\nlaunch:\n"
      "  - kernel: k\n    global: [\"64 * B\", 128, 1]\n    local: [64, 128, 1]\n    args: [q, o]\n---*/\n"
      "__kernel void k(__global const float* q, __global float* o) {}\n";
  const Facts facts = target_named("opencl")->stand_in_facts(2);
  const std::string message = plan_error(source, facts);
  BOOST_TEST(
      message.find("launch[0].local: has 8192 work items; the limit is 4096 (group_max)") != message.npos,
      message);
  BOOST_TEST(plan_error(replaced(source, "local: [64, 128, 1]", "local: [64, 64, 1]"), facts) == "no error");
}

BOOST_AUTO_TEST_CASE(an_illegal_tensor_map_is_refused_with_its_rule) {
  check_plan_error("box: [64, 1, BLOCK_M, 1]", "box: [64, 1, 257, 1]",
                   "tensor_maps.map_q.box[2]: 257; the limit is 256");
  check_plan_error("box: [64, 1, BLOCK_M, 1]", "box: [128, 1, 64, 1]",
                   "more than the swizzle's 128 (make the inner box at most 64 elements)");
  check_plan_error("box: [64, 1, BLOCK_M, 1]", "box: [12, 1, 64, 1]",
                   "24 bytes, which is not a multiple of 16");
  check_plan_error("strides: [D, H*D,", "strides: [D + 1, H*D,", "258 bytes, which is not a multiple of 16");
  check_plan_error("sizes: [D, H, S_q, B]", "sizes: [D, H, S_q, B + 1]", "the map reaches");
  check_plan_error("swizzle: 128B}\n      map_k",
                   "swizzle: 128B, element_strides: [1, 1, 9, 1]}\n      map_k",
                   "tensor_maps.map_q.element_strides[2]: 9; the limit is 8");
  check_plan_error("swizzle: 128B}\n      map_k",
                   "swizzle: 128B, element_strides: [2, 1, 1, 1]}\n      map_k",
                   "tensor_maps.map_q.element_strides[0]: without an interleave");
  check_plan_error("sizes: [D, H, S_q, B]", "sizes: [D, H, S_q, 2^33]", "the limit is 4294967296");
}

BOOST_AUTO_TEST_CASE(a_fact_that_the_device_lacks_is_named) {
  BOOST_TEST(plan_error(example::cuda, {}).find("unknown name 'num_sms'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_is_loaded_and_its_errors_carry_its_name_and_line) {
  const auto file = std::filesystem::temp_directory_path() / "cultivar_variant_test.cpp";
  std::ofstream(file) << replaced(example::cpu, "launch:", "launhc:");
  try {
    load_variant(file, attention());
    BOOST_ERROR("no error");
  } catch (const InputError& error) {
    BOOST_TEST(
        std::string(error.what())
                .find(file.string() + ":15: 'launch' is missing (did you misspell it as 'launhc'?)") == 0u,
        error.what());
  }
  std::ofstream(file) << example::cpu;
  BOOST_TEST(load_variant(file, attention()).id == made(example::cpu).id);
  std::filesystem::remove(file);
  BOOST_CHECK_THROW(load_variant(file, attention()), InputError);
}

BOOST_AUTO_TEST_CASE(a_variant_for_one_target_is_refused_on_another_with_the_line_that_says_so) {
  const Variant variant = made(example::cpu);
  BOOST_TEST(check_target(variant, target_named("cpu")).has_value());
  const auto elsewhere = check_target(variant, target_named("cuda"));
  BOOST_REQUIRE(!elsewhere);
  BOOST_TEST(elsewhere.error().message.find(
                 "target: the variant is for cpu, but cuda was requested (use --target cpu") == 0u,
             elsewhere.error().message);
  BOOST_TEST(elsewhere.error().line > 1);
  const auto file = std::filesystem::temp_directory_path() / "cultivar_variant_target_test.cpp";
  std::ofstream(file) << example::cpu;
  BOOST_CHECK_THROW(load_variant(file, attention(), target_named("cuda")), InputError);
  BOOST_TEST(load_variant(file, attention(), target_named("cpu")).id == variant.id);
  std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(every_seed_and_contender_of_the_tasks_is_a_legal_variant) {
  int count = 0;
  for (const char* folder : {"seeds", "contenders"}) {
    const auto path = attention().folder / folder;
    if (!std::filesystem::exists(path)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() != ".cpp") continue;
      const Variant v = load_variant(entry.path(), attention());
      for (const Workload& w : attention().workloads("cpu_quick")->workloads) {
        const auto plan = make_plan(v, attention(), w, cpu_facts);
        BOOST_TEST(plan.has_value(), entry.path() << ": " << (plan ? "" : plan.error().message));
      }
      ++count;
    }
  }
  BOOST_TEST(count >= 1);
}

BOOST_AUTO_TEST_SUITE_END()
