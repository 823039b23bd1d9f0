// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/tensor_map.hpp"

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/variant/example.hpp"

#include <boost/test/unit_test.hpp>

using namespace cultivar;

namespace {

PlannedTensorMap good() {
  PlannedTensorMap map;
  map.name = "map_q";
  map.dtype = Dtype::bf16;
  map.sizes = {128, 16, 8192, 4};
  map.stride_bytes = {256, 4096, 33554432};
  map.box = {64, 1, 128, 1};
  map.element_strides = {1, 1, 1, 1};
  map.swizzle = "128B";
  map.interleave = "none";
  map.l2_promotion = "256B";
  map.out_of_bounds = "zero";
  return map;
}

template <class Change>
void refuses(Change change, const std::string& words) {
  PlannedTensorMap map = good();
  change(map);
  const auto arguments = tensor_map_arguments(map);
  BOOST_REQUIRE_MESSAGE(!arguments, words + " was not refused");
  BOOST_TEST(arguments.error().message.find("tensor_maps.map_q." + words) != std::string::npos,
             arguments.error().message);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_tensor_map)

BOOST_AUTO_TEST_CASE(a_planned_map_becomes_the_drivers_numbers) {
  const auto a = tensor_map_arguments(good());
  BOOST_REQUIRE_MESSAGE(a, (a ? "" : a.error().message));
  BOOST_TEST(a->data_type == 9u);  // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
  BOOST_TEST(a->rank == 4u);
  BOOST_TEST((a->sizes == std::array<std::uint64_t, 5>{128, 16, 8192, 4, 0}));
  BOOST_TEST((a->stride_bytes == std::array<std::uint64_t, 4>{256, 4096, 33554432, 0}));
  BOOST_TEST((a->box == std::array<std::uint32_t, 5>{64, 1, 128, 1, 0}));
  BOOST_TEST(a->swizzle == 3u);
  BOOST_TEST(a->interleave == 0u);
  BOOST_TEST(a->l2_promotion == 3u);
  BOOST_TEST(a->out_of_bounds == 0u);
}

BOOST_AUTO_TEST_CASE(every_rank_from_one_to_five_passes) {
  for (std::size_t rank = 1; rank <= 5; ++rank) {
    PlannedTensorMap map = good();
    map.sizes.assign(rank, 64);
    map.box.assign(rank, 8);
    map.element_strides.assign(rank, 1);
    map.stride_bytes.assign(rank - 1, 128);
    const auto a = tensor_map_arguments(map);
    BOOST_REQUIRE_MESSAGE(a, (a ? "" : a.error().message));
    BOOST_TEST(a->rank == rank);
  }
}

BOOST_AUTO_TEST_CASE(each_rule_of_the_driver_is_checked_by_map_field_and_remedy) {
  refuses([](auto& m) { m.sizes.clear(), m.stride_bytes.clear(); }, "sizes: has rank 0");
  refuses([](auto& m) { m.sizes.assign(6, 8); }, "sizes: has rank 6");
  refuses([](auto& m) { m.stride_bytes.pop_back(); }, "strides: has 2 entries; rank 4 needs 3");
  refuses([](auto& m) { m.box.pop_back(); }, "box: has 3 entries");
  refuses([](auto& m) { m.element_strides.pop_back(); }, "element_strides: has 3 entries");
  refuses([](auto& m) { m.sizes[2] = 0; }, "sizes[2]: is 0; it must be 1 to 2^32");
  refuses([](auto& m) { m.sizes[2] = (std::uint64_t{1} << 32) + 1; }, "sizes[2]: is 4294967297");
  refuses([](auto& m) { m.stride_bytes[1] = 4104; },
          "strides[1]: is 4104 bytes, which is not a multiple of 16");
  refuses([](auto& m) { m.stride_bytes[2] = std::uint64_t{1} << 40; }, "strides[2]: is 1099511627776 bytes");
  refuses([](auto& m) { m.box[2] = 257; }, "box[2]: is 257; it must be 1 to 256");
  refuses([](auto& m) { m.box[3] = 0; }, "box[3]: is 0");
  refuses([](auto& m) { m.box[0] = 12; }, "box[0]: 12 elements are 24 bytes, which is not a multiple of 16");
  refuses([](auto& m) { m.box[0] = 128; },
          "box[0]: 128 elements are 256 bytes, more than the swizzle's 128 (make it at most 64");
  refuses([](auto& m) { m.swizzle = "32B"; },
          "box[0]: 64 elements are 128 bytes, more than the swizzle's 32");
  refuses([](auto& m) { m.element_strides[1] = 9; }, "element_strides[1]: is 9; it must be 1 to 8");
  refuses([](auto& m) { m.interleave = "32B"; }, "swizzle: interleave 32B needs swizzle 32B");
  refuses([](auto& m) { m.interleave = "32B", m.swizzle = "32B", m.stride_bytes[0] = 272; },
          "strides[0]: is 272 bytes, which is not a multiple of 32");
  refuses(
      [](auto& m) {
        m.interleave = "16B", m.sizes = {64, 64}, m.stride_bytes = {128}, m.box = {8, 8},
        m.element_strides = {1, 1};
      },
      "interleave: an interleaved layout needs rank 3");
  refuses([](auto& m) { m.dtype = Dtype::i32, m.box[0] = 32, m.out_of_bounds = "nan"; },
          "out_of_bounds: nan needs a floating dtype");
  refuses([](auto& m) { m.dtype = Dtype::i16; }, "tensor: tensor maps do not support dtype i16");
  refuses([](auto& m) { m.swizzle = "256B"; }, "swizzle: tensor maps do not support 256B");
  refuses([](auto& m) { m.l2_promotion = "512B"; }, "l2_promotion: tensor maps do not support 512B");
}

BOOST_AUTO_TEST_CASE(addresses_are_checked_against_the_layout) {
  PlannedTensorMap map = good();
  BOOST_TEST(check_address(map, 0x7000010).has_value());
  BOOST_TEST(!check_address(map, 0x7000008).has_value());
  map.interleave = "32B";
  BOOST_TEST(!check_address(map, 0x7000010).has_value());
}

BOOST_AUTO_TEST_CASE(element_strides_thin_out_a_box) {
  PlannedTensorMap map = good();
  map.element_strides = {1, 1, 2, 1};
  map.element_strides = {4, 1, 1, 1};  // of the innermost dimension it is ignored
}

BOOST_AUTO_TEST_CASE(the_plan_of_the_example_is_legal_on_every_known_card) {
  const auto variant = make_variant(example::cuda, example::attention());
  BOOST_REQUIRE(variant.has_value());
  for (const KnownDevice& device : known_devices()) {
    for (const auto& [name, about] : target_named("cuda")->facts)
      BOOST_TEST(device.facts.count(name) == 1u, name);
    int planned = 0;
    for (const Workload& w : example::attention().workloads("avo_mha")->workloads) {
      if (!claims(*variant, example::attention(), w)) continue;
      const auto plan = make_plan(*variant, example::attention(), w, device.facts);
      BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
      for (const PlannedTensorMap& map : plan->tensor_maps) BOOST_TEST(tensor_map_arguments(map).has_value());
      ++planned;
    }
    BOOST_TEST(planned == 8);
  }
  BOOST_TEST(known_device("h200")->facts.at("l2_bytes") > known_device("h100")->facts.at("l2_bytes"));
  BOOST_TEST(known_device("h900") == nullptr);
  BOOST_TEST(architecture_of(90) == "sm_90a");
  BOOST_TEST(architecture_of(89) == "sm_89");
}

BOOST_AUTO_TEST_CASE(a_map_on_a_workspace_ends_where_the_workspace_ends) {
  const std::string kernels = std::string(CULTIVAR_SOURCE_DIR) + "/tests/kernels/cuda/cheats/";
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  const Workload workload{"w", Dtype::f32, {{"R", 4096}, {"C", 1024}}};
  const Facts& card = known_device("h100")->facts;
  const auto inside =
      make_plan(load_variant(kernels + "remembers_in_a_mapped_workspace.cu", task), task, workload, card);
  BOOST_REQUIRE_MESSAGE(inside, (inside ? "" : inside.error().message));
  BOOST_TEST(inside->tensor_maps.size() == 1U);
  const auto beyond =
      make_plan(load_variant(kernels + "maps_more_than_its_workspace.cu", task), task, workload, card);
  BOOST_REQUIRE(!beyond);
  BOOST_TEST(beyond.error().message.find(
                 "the map reaches byte 1048576 of 'spare', which has only 524288 bytes") != std::string::npos,
             beyond.error().message);
}

BOOST_AUTO_TEST_SUITE_END()
