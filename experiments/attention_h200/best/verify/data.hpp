// The task as data for verify.cpp; generated.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "cultivar_reference.hpp"
#include "evaluators/dtype/dtype.hpp"

namespace verify_data {

using cultivar::Dtype;

struct Tensor {
  const char* name;
  Dtype dtype;
  bool output;
  std::vector<const char*> shape;
  // Of an output: the dimensions that a row of the oracle has one index of. Of a derived input: those of derive_row.
  std::vector<const char*> rows;
  bool derived = false;
};
// How an input of a workload is drawn; see configs/tasks/README.md of Cultivar.
enum class Kind { normal, uniform, integers, permutation, lengths, offsets };
struct Fill {
  Kind kind = Kind::normal;
  double a = 0, b = 1, instead = 0, share = 0;
  int axis = 0;  // negative: the whole tensor is one line
};
struct Workload {
  const char* name;
  std::vector<ReferenceNumber> numbers;
  double cost = 0;
  std::vector<Fill> fills = {};  // one for each tensor; those of outputs are not used

  double number(const char* wanted) const {
    for (const auto& n : numbers)
      if (std::strcmp(n.name, wanted) == 0) return n.value;
    return 1.0;
  }
};

const double factor = 2, floor_eps = 64, epsilon = 1.1920928955078125e-07;
inline double round_to_dtype(double value) { return cultivar::round_to(Dtype::bf16, value); }
const std::vector<Tensor> tensors{
    {"q", Dtype::bf16, false, {"B", "S_q", "H", "D", }, {}},
    {"k", Dtype::bf16, false, {"B", "S_kv", "H_kv", "D", }, {}},
    {"v", Dtype::bf16, false, {"B", "S_kv", "H_kv", "D", }, {}},
    {"o", Dtype::bf16, true, {"B", "S_q", "H", "D", }, {"B", "S_q", "H", }},
    {"lse", Dtype::f32, true, {"B", "H", "S_q", }, {"B", "S_q", "H", }},
};
const std::vector<Workload> workloads{
    {"B16_H32_Hkv8_Sq512_D128_causal_bf16", {{"B", 16.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 512.0}, {"S_q", 512.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 131072.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 131072.0}, {"window_rows", 512.0}, {"window_span", 512.0}, }, 34359738368.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H32_Hkv8_Sq1024_D128_causal_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 1024.0}, {"S_q", 1024.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 524288.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 524288.0}, {"window_rows", 1024.0}, {"window_span", 1024.0}, }, 17179869184.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H40_Hkv8_Sq1999_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 40.0}, {"H_kv", 8.0}, {"S_kv", 1999.0}, {"S_q", 1999.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 1998000.5}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 1998000.5}, {"window_rows", 1999.0}, {"window_span", 1999.0}, }, 40919050240.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B5_H32_Hkv8_Sq3001_D128_causal_bf16", {{"B", 5.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 3001.0}, {"S_q", 3001.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 4503000.5}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 4503000.5}, {"window_rows", 3001.0}, {"window_span", 3001.0}, }, 368885800960.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B3_H16_Sq4321_D128_bf16", {{"B", 3.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 4321.0}, {"S_q", 4321.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 18671041.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 9335520.5}, {"window_rows", 4321.0}, {"window_span", 4321.0}, }, 458859503616.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H32_Hkv4_Sq8192_D128_causal_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 4.0}, {"S_kv", 8192.0}, {"S_q", 8192.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 33554432.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 33554432.0}, {"window_rows", 8192.0}, {"window_span", 8192.0}, }, 2199023255552.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H16_Sq11111_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 11111.0}, {"S_q", 11111.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 61727160.5}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 61727160.5}, {"window_rows", 11111.0}, {"window_span", 11111.0}, }, 505668898816.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H16_Sq32768_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 32768.0}, {"S_q", 32768.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 536870912.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 536870912.0}, {"window_rows", 32768.0}, {"window_span", 32768.0}, }, 4398046511104.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H8_Hkv1_Sq131072_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 8.0}, {"H_kv", 1.0}, {"S_kv", 131072.0}, {"S_q", 131072.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8589934592.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8589934592.0}, {"window_rows", 131072.0}, {"window_span", 131072.0}, }, 35184372088832.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H20_Sq1500_D64_bf16", {{"B", 8.0}, {"D", 64.0}, {"H", 20.0}, {"H_kv", 20.0}, {"S_kv", 1500.0}, {"S_q", 1500.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2250000.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 1125000.0}, {"window_rows", 1500.0}, {"window_span", 1500.0}, }, 92160000000.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H32_Hkv8_Sq2048_D64_causal_bf16", {{"B", 4.0}, {"D", 64.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 2048.0}, {"S_q", 2048.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2097152.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2097152.0}, {"window_rows", 2048.0}, {"window_span", 2048.0}, }, 68719476736.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H32_Sq4096_D64_bf16", {{"B", 8.0}, {"D", 64.0}, {"H", 32.0}, {"H_kv", 32.0}, {"S_kv", 4096.0}, {"S_q", 4096.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 16777216.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8388608.0}, {"window_rows", 4096.0}, {"window_span", 4096.0}, }, 1099511627776.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H64_Hkv8_Sq10007_D64_causal_bf16", {{"B", 1.0}, {"D", 64.0}, {"H", 64.0}, {"H_kv", 8.0}, {"S_kv", 10007.0}, {"S_q", 10007.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 50070024.5}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 50070024.5}, {"window_rows", 10007.0}, {"window_span", 10007.0}, }, 820347281408.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H32_Sq16384_D64_causal_bf16", {{"B", 2.0}, {"D", 64.0}, {"H", 32.0}, {"H_kv", 32.0}, {"S_kv", 16384.0}, {"S_q", 16384.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 134217728.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 134217728.0}, {"window_rows", 16384.0}, {"window_span", 16384.0}, }, 2199023255552.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H8_Sq4096_D256_bf16", {{"B", 8.0}, {"D", 256.0}, {"H", 8.0}, {"H_kv", 8.0}, {"S_kv", 4096.0}, {"S_q", 4096.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 16777216.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8388608.0}, {"window_rows", 4096.0}, {"window_span", 4096.0}, }, 1099511627776.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H16_Hkv8_Sq8192_D256_causal_bf16", {{"B", 2.0}, {"D", 256.0}, {"H", 16.0}, {"H_kv", 8.0}, {"S_kv", 8192.0}, {"S_q", 8192.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 33554432.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 33554432.0}, {"window_rows", 8192.0}, {"window_span", 8192.0}, }, 1099511627776.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H8_Sq16384_D256_causal_bf16", {{"B", 2.0}, {"D", 256.0}, {"H", 8.0}, {"H_kv", 8.0}, {"S_kv", 16384.0}, {"S_q", 16384.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 134217728.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 134217728.0}, {"window_rows", 16384.0}, {"window_span", 16384.0}, }, 2199023255552.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H24_Sq4096_Skv512_D128_bf16", {{"B", 8.0}, {"D", 128.0}, {"H", 24.0}, {"H_kv", 24.0}, {"S_kv", 512.0}, {"S_q", 4096.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2097152.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 131072.0}, {"window_rows", 512.0}, {"window_span", 512.0}, }, 206158430208.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H16_Sq2048_Skv6144_D64_bf16", {{"B", 4.0}, {"D", 64.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 6144.0}, {"S_q", 2048.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 12582912.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 10485760.0}, {"window_rows", 2048.0}, {"window_span", 6144.0}, }, 206158430208.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H16_Sq3000_Skv7001_D128_causal_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 7001.0}, {"S_q", 3000.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 16503000.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 16503000.0}, {"window_rows", 3000.0}, {"window_span", 7001.0}, }, 270385152000.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H32_Hkv8_Sq32_Skv4096_D128_causal_bf16", {{"B", 8.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 4096.0}, {"S_q", 32.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 130560.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 130560.0}, {"window_rows", 32.0}, {"window_span", 4096.0}, }, 17112760320.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H32_Hkv8_Sq256_Skv16384_D128_causal_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 16384.0}, {"S_q", 256.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 4161536.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 4161536.0}, {"window_rows", 256.0}, {"window_span", 16384.0}, }, 272730423296.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H64_Hkv8_Sq64_Skv20000_D64_causal_bf16", {{"B", 4.0}, {"D", 64.0}, {"H", 64.0}, {"H_kv", 8.0}, {"S_kv", 20000.0}, {"S_q", 64.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 1277952.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 1277952.0}, {"window_rows", 64.0}, {"window_span", 20000.0}, }, 83751862272.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H64_Hkv8_Sq16_Skv32768_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 64.0}, {"H_kv", 8.0}, {"S_kv", 32768.0}, {"S_q", 16.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 524160.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 524160.0}, {"window_rows", 16.0}, {"window_span", 32768.0}, }, 17175674880.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H32_Hkv4_Sq128_Skv65536_D128_causal_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 4.0}, {"S_kv", 65536.0}, {"S_q", 128.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8380416.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8380416.0}, {"window_rows", 128.0}, {"window_span", 65536.0}, }, 274609471488.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H32_Hkv8_Sq512_Skv131072_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 131072.0}, {"S_q", 512.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 66977792.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 66977792.0}, {"window_rows", 512.0}, {"window_span", 131072.0}, }, 1097364144128.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B256_H32_Hkv8_Sq1_Skv1024_D128_bf16", {{"B", 256.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 1024.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 1024.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 1023.5}, {"window_rows", 1.0}, {"window_span", 1024.0}, }, 4294967296.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B128_H32_Hkv8_Sq1_Skv2048_D128_bf16", {{"B", 128.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 2048.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2048.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2047.5}, {"window_rows", 1.0}, {"window_span", 2048.0}, }, 4294967296.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B32_H32_Sq1_Skv2048_D128_bf16", {{"B", 32.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 32.0}, {"S_kv", 2048.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2048.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2047.5}, {"window_rows", 1.0}, {"window_span", 2048.0}, }, 1073741824.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B64_H32_Hkv8_Sq1_Skv8192_D128_bf16", {{"B", 64.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 8192.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8192.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8191.5}, {"window_rows", 1.0}, {"window_span", 8192.0}, }, 8589934592.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B16_H16_Hkv8_Sq1_Skv8192_D256_bf16", {{"B", 16.0}, {"D", 256.0}, {"H", 16.0}, {"H_kv", 8.0}, {"S_kv", 8192.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8192.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8191.5}, {"window_rows", 1.0}, {"window_span", 8192.0}, }, 2147483648.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B32_H64_Hkv8_Sq1_Skv16384_D64_bf16", {{"B", 32.0}, {"D", 64.0}, {"H", 64.0}, {"H_kv", 8.0}, {"S_kv", 16384.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 16384.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 16383.5}, {"window_rows", 1.0}, {"window_span", 16384.0}, }, 8589934592.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H64_Hkv8_Sq4_Skv16384_D128_causal_bf16", {{"B", 8.0}, {"D", 128.0}, {"H", 64.0}, {"H_kv", 8.0}, {"S_kv", 16384.0}, {"S_q", 4.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 65528.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 65528.0}, {"window_rows", 4.0}, {"window_span", 16384.0}, }, 17177772032.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H32_Hkv8_Sq8_Skv50001_D128_causal_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 50001.0}, {"S_q", 8.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 399976.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 399976.0}, {"window_rows", 8.0}, {"window_span", 50001.0}, }, 26212827136.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H32_Hkv8_Sq1_Skv131072_D128_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 32.0}, {"H_kv", 8.0}, {"S_kv", 131072.0}, {"S_q", 1.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 131072.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 131071.5}, {"window_rows", 1.0}, {"window_span", 131072.0}, }, 2147483648.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B3_H16_Sq5000_D128_bf16", {{"B", 3.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 5000.0}, {"S_q", 5000.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 25000000.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 12500000.0}, {"window_rows", 5000.0}, {"window_span", 5000.0}, }, 614400000000.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H16_Sq12345_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 12345.0}, {"S_q", 12345.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 76199512.5}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 76199512.5}, {"window_rows", 12345.0}, {"window_span", 12345.0}, }, 624226406400.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H24_Hkv6_Sq6144_D128_causal_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 24.0}, {"H_kv", 6.0}, {"S_kv", 6144.0}, {"S_q", 6144.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 18874368.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 18874368.0}, {"window_rows", 6144.0}, {"window_span", 6144.0}, }, 463856467968.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H8_Sq2048_Skv9000_D128_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 8.0}, {"H_kv", 8.0}, {"S_kv", 9000.0}, {"S_q", 2048.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 18432000.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 16334848.0}, {"window_rows", 2048.0}, {"window_span", 9000.0}, }, 301989888000.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Sq64_D64_causal_bf16", {{"B", 1.0}, {"D", 64.0}, {"H", 2.0}, {"H_kv", 2.0}, {"S_kv", 64.0}, {"S_q", 64.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2048.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2048.0}, {"window_rows", 64.0}, {"window_span", 64.0}, }, 1048576.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Hkv1_Sq128_D256_causal_bf16", {{"B", 1.0}, {"D", 256.0}, {"H", 2.0}, {"H_kv", 1.0}, {"S_kv", 128.0}, {"S_q", 128.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8192.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8192.0}, {"window_rows", 128.0}, {"window_span", 128.0}, }, 16777216.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
};

[[noreturn]] inline double missing(const char* name) {
  throw std::runtime_error("attention_forward: the workload has no value for " + std::string(name));
}

// All numbers of a workload. given(name) is a pointer to a value; null: the default is used.
template <class Given>
std::vector<ReferenceNumber> numbers_of(const Given& given) {
    namespace expression = cultivar_export::expression;
    [[maybe_unused]] const double n_f64 = 0.0;
    [[maybe_unused]] const double n_f32 = 1.0;
    [[maybe_unused]] const double n_f16 = 2.0;
    [[maybe_unused]] const double n_bf16 = 3.0;
    [[maybe_unused]] const double n_i64 = 4.0;
    [[maybe_unused]] const double n_i32 = 5.0;
    [[maybe_unused]] const double n_i16 = 6.0;
    [[maybe_unused]] const double n_i8 = 7.0;
    [[maybe_unused]] const double n_u64 = 8.0;
    [[maybe_unused]] const double n_u32 = 9.0;
    [[maybe_unused]] const double n_u16 = 10.0;
    [[maybe_unused]] const double n_u8 = 11.0;
    [[maybe_unused]] const double n_e4m3 = 12.0;
    [[maybe_unused]] const double n_e5m2 = 13.0;
    [[maybe_unused]] const double n_dtype = n_bf16;
    [[maybe_unused]] const double n_element_bytes = 2.0;
    [[maybe_unused]] const double n_B = given("B") ? *given("B") : missing("B");
    [[maybe_unused]] const double n_H = given("H") ? *given("H") : missing("H");
    [[maybe_unused]] const double n_H_kv = given("H_kv") ? *given("H_kv") : n_H;
    [[maybe_unused]] const double n_S_q = given("S_q") ? *given("S_q") : missing("S_q");
    [[maybe_unused]] const double n_S_kv = given("S_kv") ? *given("S_kv") : n_S_q;
    [[maybe_unused]] const double n_D = given("D") ? *given("D") : missing("D");
    [[maybe_unused]] const double n_causal = given("causal") ? *given("causal") : 0.0;
    [[maybe_unused]] const double n_scale = given("scale") ? *given("scale") : expression::divide(1.0, expression::sqrt(n_D));
    [[maybe_unused]] const double n_window = given("window") ? *given("window") : 0.0;
    [[maybe_unused]] const double n_softcap = given("softcap") ? *given("softcap") : 0.0;
    [[maybe_unused]] const double n_window_span = ((double(n_window == 0.0)) != 0.0 ? n_S_kv : expression::min(n_window, n_S_kv));
    [[maybe_unused]] const double n_window_rows = expression::min(n_S_q, n_S_kv);
    [[maybe_unused]] const double n_window_before = ((n_window_rows * n_window_span) - expression::divide(std::pow(expression::max(0.0, ((n_window_span - n_S_kv) + n_window_rows)), 2.0), 2.0));
    [[maybe_unused]] const double n_pairs = ((n_causal) != 0.0 ? n_window_before : ((double(n_window == 0.0)) != 0.0 ? (n_S_q * n_S_kv) : ((n_window_before + (n_window_rows * expression::min(n_window, n_window_rows))) - expression::divide(std::pow(expression::min(n_window, n_window_rows), 2.0), 2.0))));
    return {{"B", n_B}, {"D", n_D}, {"H", n_H}, {"H_kv", n_H_kv}, {"S_kv", n_S_kv}, {"S_q", n_S_q}, {"causal", n_causal}, {"dtype", n_dtype}, {"element_bytes", n_element_bytes}, {"pairs", n_pairs}, {"scale", n_scale}, {"softcap", n_softcap}, {"window", n_window}, {"window_before", n_window_before}, {"window_rows", n_window_rows}, {"window_span", n_window_span}, };
}

// The launcher's arguments; `places` is in the order of `tensors`.
inline void place(cultivar_export::AttentionForwardArguments& arguments, void* const* places) {
  arguments.q = static_cast<decltype(arguments.q)>(places[0]);
  arguments.k = static_cast<decltype(arguments.k)>(places[1]);
  arguments.v = static_cast<decltype(arguments.v)>(places[2]);
  arguments.o = static_cast<decltype(arguments.o)>(places[3]);
  arguments.lse = static_cast<decltype(arguments.lse)>(places[4]);
}
inline cultivar_export::AttentionForwardArguments bind(const Workload& workload, const std::vector<void*>& places) {
  cultivar_export::AttentionForwardArguments arguments;
  arguments.B = static_cast<std::int64_t>(workload.number("B"));
  arguments.H = static_cast<std::int64_t>(workload.number("H"));
  arguments.H_kv = static_cast<std::int64_t>(workload.number("H_kv"));
  arguments.S_q = static_cast<std::int64_t>(workload.number("S_q"));
  arguments.S_kv = static_cast<std::int64_t>(workload.number("S_kv"));
  arguments.D = static_cast<std::int64_t>(workload.number("D"));
  arguments.causal = static_cast<decltype(arguments.causal)>(workload.number("causal"));
  arguments.scale = static_cast<decltype(arguments.scale)>(workload.number("scale"));
  arguments.window = static_cast<decltype(arguments.window)>(workload.number("window"));
  arguments.softcap = static_cast<decltype(arguments.softcap)>(workload.number("softcap"));
  place(arguments, places.data());
  return arguments;
}

}  // namespace verify_data
