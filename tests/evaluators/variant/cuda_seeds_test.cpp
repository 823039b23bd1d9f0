// SPDX-License-Identifier: Apache-2.0
// The CUDA seeds: the workloads they claim, their constraints, and their plans.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>

#include "evaluators/variant/example.hpp"

using namespace cultivar;
using example::attention;
using example::cuda_facts;
namespace fs = std::filesystem;

namespace {

const fs::path folder = CULTIVAR_SOURCE_DIR "/configs/tasks/attention_forward/seeds";
constexpr std::array sets{"avo_mha",    "avo_gqa8", "avo_gqa4", "fa_sweep", "quick", "holdout",
                          "everywhere", "decode",   "chunked",  "d64",      "d256"};

std::vector<fs::path> seeds() {
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".cu") result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

Variant wgmma(Configuration configuration = {}) {
  return load_variant(folder / "cuda_wgmma.cu", attention(), std::move(configuration));
}

Plan planned(const Variant& variant, const Workload& workload) {
  const auto held = check_constraints(variant, attention(), workload, cuda_facts);
  BOOST_REQUIRE_MESSAGE(held, variant.manifest.name + ": " + (held ? "" : held.error().message));
  auto plan = make_plan(variant, attention(), workload, cuda_facts);
  BOOST_REQUIRE_MESSAGE(plan, variant.manifest.name + ": " + (plan ? "" : plan.error().message));
  return *std::move(plan);
}

const Workload& first_of(const char* set) {
  return attention().workloads(set)->workloads.front();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_seeds)

BOOST_AUTO_TEST_CASE(there_is_a_naive_one_one_with_mma_two_with_wgmma_and_one_that_splits_the_keys) {
  std::vector<std::string> names;
  for (const fs::path& path : seeds()) names.push_back(load_variant(path, attention()).manifest.name);
  BOOST_TEST(
      names == (std::vector<std::string>{"attention_mma", "attention_warp_per_query",
                                         "attention_even_sections", "attention_split", "attention_wgmma"}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(each_claims_every_half_precision_workload_and_its_plan_evaluates_there) {
  for (const fs::path& path : seeds()) {
    const Variant variant = load_variant(path, attention());
    BOOST_TEST(name_of(variant.manifest.target) == "cuda");
    for (const char* set : sets)
      for (Workload workload : attention().workloads(set)->workloads)
        for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
          workload.dtype = dtype;
          BOOST_REQUIRE_MESSAGE(claims(variant, attention(), workload),
                                path.filename().string() + " " + workload.name);
          const Plan plan = planned(variant, workload);
          BOOST_TEST(plan.kernels.size() >= 1u);
          for (const PlannedKernel& kernel : plan.kernels) {
            BOOST_TEST(kernel.launch.number("shared", 0) <= 232448);
            BOOST_TEST(kernel.launch.three("grid")[0] >= 1u);
          }
        }
  }
}

BOOST_AUTO_TEST_CASE(each_plans_every_shape_of_the_checks_that_it_claims) {
  for (const fs::path& path : seeds()) {
    const Variant variant = load_variant(path, attention());
    const Task& task = attention();
    for (const auto* stage : {&task.smoke, &task.sweep, &task.stress_shapes, &task.edge})
      for (Workload workload : *stage) {
        workload.dtype = Dtype::f16;
        const bool usual = workload.values.at("window") == 0 && workload.values.at("softcap") == 0;
        const bool limited = path.filename() == "cuda_split.cu" || path.filename() == "cuda_sections.cu";
        const bool claimed = claims(variant, task, workload);
        BOOST_REQUIRE_MESSAGE(claimed == (usual || !limited), path.filename().string() + " " + workload.name);
        if (claimed) planned(variant, workload);
      }
  }
}

BOOST_AUTO_TEST_CASE(windows_and_caps_are_compiled_in_only_where_they_are_on) {
  for (const char* name : {"cuda_naive.cu", "cuda_mma.cu", "cuda_wgmma.cu"}) {
    const Variant variant = load_variant(folder / name, attention());
    for (const char* set : {"quick", "window", "softcap"})
      for (const Workload& workload : attention().workloads(set)->workloads) {
        BOOST_TEST(claims(variant, attention(), workload), workload.name);
        planned(variant, workload);
        const auto defined = macros(variant, attention(), workload);
        const auto has = [&](const std::string& macro) { return std::ranges::count(defined, macro) == 1; };
        BOOST_TEST(has(workload.values.at("window") > 0 ? "windowed=1" : "windowed=0"), workload.name);
        BOOST_TEST(has(workload.values.at("softcap") > 0 ? "capped=1" : "capped=0"), workload.name);
      }
  }
}

BOOST_AUTO_TEST_CASE(only_the_naive_one_claims_single_precision_and_none_a_head_it_cannot_hold) {
  Workload workload = first_of("cpu_quick");
  for (const fs::path& path : seeds())
    BOOST_TEST(claims(load_variant(path, attention()), attention(), workload) ==
               (path.filename() == "cuda_naive.cu"));
  workload.dtype = Dtype::bf16;
  workload.values["D"] = 80;
  for (const fs::path& path : seeds())
    BOOST_TEST(!claims(load_variant(path, attention()), attention(), workload));
}

BOOST_AUTO_TEST_CASE(every_value_of_every_knob_is_allowed_on_some_workload_when_the_others_may_follow) {
  for (const fs::path& path : seeds()) {
    const Variant plain = load_variant(path, attention());
    for (const Tunable& tunable : plain.manifest.tunables)
      for (const TunableValue& value : tunable.values) {
        bool allowed = false;
        // The smallest values of the other tunables leave the most room.
        for (const bool smallest : {false, true}) {
          Configuration configuration = default_configuration(plain.manifest.tunables);
          if (smallest)
            for (const Tunable& other : plain.manifest.tunables)
              configuration[other.name] = other.values.front();
          configuration[tunable.name] = value;
          const Variant variant = load_variant(path, attention(), configuration);
          for (const Workload& workload : attention().workloads("fa_sweep")->workloads) {
            if (!check_constraints(variant, attention(), workload, cuda_facts)) continue;
            allowed = true;
            planned(variant, workload);
          }
        }
        BOOST_TEST(allowed,
                   fmt::format("{}: {}={}", path.filename().string(), tunable.name, to_string(value)));
      }
  }
}

BOOST_AUTO_TEST_CASE(the_tensor_maps_of_wgmma_are_boxes_of_64_elements_over_the_whole_tensors) {
  Workload workload = first_of("avo_gqa8");  // B 8, H 32 on 8, S 4096, D 128
  workload.values["S_kv"] = 5000;
  const Variant variant = wgmma({{"BLOCK_N", std::int64_t{176}}});
  const Plan plan = planned(variant, workload);
  BOOST_REQUIRE(plan.tensor_maps.size() == 4u);
  for (const PlannedTensorMap& map : plan.tensor_maps) {
    const bool keys = map.name == "map_k" || map.name == "map_v";
    BOOST_TEST(map.sizes == (std::vector<std::uint64_t>{128, keys ? 8u : 32u, keys ? 5000u : 4096u, 8}),
               boost::test_tools::per_element());
    BOOST_TEST(map.box == (std::vector<std::uint32_t>{64, 1, keys ? 176u : 64u, 1}),
               boost::test_tools::per_element());
    BOOST_TEST(map.stride_bytes.front() == 256u);
    BOOST_TEST(map.swizzle == "128B");
  }
  // Q of two teams and two stages of K and V, 1 KiB to align and 512 bytes of barriers.
  BOOST_TEST(plan.kernels.front().launch.number("shared", 0) == (128 + 4 * 176) * 256 + 1536);
  BOOST_TEST(plan.kernels.front().launch.three("block")[0] == 384u);
}

BOOST_AUTO_TEST_CASE(the_grid_of_wgmma_is_all_tiles_or_one_block_a_multiprocessor) {
  Workload workload = first_of("quick");  // B 1, H 16, S 1024
  const auto grid = [&](const char* schedule, std::int64_t consumers) {
    return planned(wgmma({{"SCHEDULE", schedule}, {"CONSUMERS", consumers}, {"BLOCK_N", std::int64_t{64}}}),
                   workload)
        .kernels.front()
        .launch.three("grid")[0];
  };
  BOOST_TEST(grid("single", 2) == 128u);
  BOOST_TEST(grid("single", 3) == 96u);
  BOOST_TEST(grid("ticket", 2) == 128u);
  workload.values["S_q"] = 1025;
  BOOST_TEST(grid("single", 2) == 144u);
  BOOST_TEST(grid("ticket", 2) == 132u);
  BOOST_TEST(grid("strided", 2) == 132u);
}

BOOST_AUTO_TEST_CASE(constraints_of_wgmma_keep_out_what_the_registers_and_the_shared_memory_cannot_hold) {
  const Workload& full = first_of("avo_mha");
  const auto held = [&](Configuration configuration) {
    return check_constraints(wgmma(std::move(configuration)), attention(), full, cuda_facts).has_value();
  };
  BOOST_TEST(held({{"BLOCK_N", std::int64_t{192}}}));
  BOOST_TEST(!held({{"BLOCK_N", std::int64_t{192}}, {"STAGES", std::int64_t{3}}}));
  BOOST_TEST(held({{"CONSUMERS", std::int64_t{3}}, {"BLOCK_N", std::int64_t{80}}}));
  BOOST_TEST(!held({{"CONSUMERS", std::int64_t{3}}, {"BLOCK_N", std::int64_t{128}}}));
}

BOOST_AUTO_TEST_CASE(few_queries_share_the_keys_of_a_head_among_blocks_that_fill_the_card) {
  const Variant split = load_variant(folder / "cuda_split.cu", attention());
  for (const Workload& workload : attention().workloads("decode")->workloads) {
    const Plan plan = planned(split, workload);
    const double blocks = plan.kernels.front().launch.three("grid")[0];
    BOOST_TEST(blocks >= 132u, workload.name);
    // The results of the blocks are small beside the keys and values.
    for (const PlannedBuffer& buffer : plan.buffers)
      if (buffer.use == PlannedBuffer::Use::workspace)
        BOOST_TEST(double(buffer.bytes) < attention().bytes(workload) / 2, workload.name);
  }
  BOOST_TEST(planned(split, first_of("avo_mha")).kernels.size() == 1u);
  BOOST_TEST(planned(split, attention().workloads("decode")->workloads.back()).kernels.size() == 2u);
}

BOOST_AUTO_TEST_CASE(rows_that_are_summed_by_several_blocks_need_a_second_kernel) {
  const Task task = load_task(fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/row_reduce");
  const Variant variant = load_variant(task.folder / "seeds/cuda_split.cu", task);
  const auto kernels = [&](double rows, double columns) {
    Workload w = task.workloads("gpu")->workloads.front();
    w.values["R"] = rows, w.values["C"] = columns;
    const Plan plan = make_plan(variant, task, w, cuda_facts).value();
    std::string names;
    for (const PlannedKernel& kernel : plan.kernels) names += kernel.kernel + " ";
    return names;
  };
  BOOST_TEST(kernels(16384, 8192) == "row_reduce ");
  BOOST_TEST(kernels(1, 1 << 26) == "row_reduce add_parts ");
  BOOST_TEST(kernels(70000, 16) == "row_reduce ");
}

BOOST_AUTO_TEST_SUITE_END()
