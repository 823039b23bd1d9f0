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
    {"B8_H16_Sq4096_D128_bf16", {{"B", 8.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 4096.0}, {"S_q", 4096.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 16777216.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8388608.0}, {"window_rows", 4096.0}, {"window_span", 4096.0}, }, 1099511627776.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H16_Sq8192_D128_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 8192.0}, {"S_q", 8192.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 67108864.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 33554432.0}, {"window_rows", 8192.0}, {"window_span", 8192.0}, }, 2199023255552.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H16_Sq16384_D128_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 16384.0}, {"S_q", 16384.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 268435456.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 134217728.0}, {"window_rows", 16384.0}, {"window_span", 16384.0}, }, 4398046511104.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H16_Sq32768_D128_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 32768.0}, {"S_q", 32768.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 1073741824.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 536870912.0}, {"window_rows", 32768.0}, {"window_span", 32768.0}, }, 8796093022208.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B8_H16_Sq4096_D128_causal_bf16", {{"B", 8.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 4096.0}, {"S_q", 4096.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8388608.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8388608.0}, {"window_rows", 4096.0}, {"window_span", 4096.0}, }, 549755813888.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H16_Sq8192_D128_causal_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 8192.0}, {"S_q", 8192.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 33554432.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 33554432.0}, {"window_rows", 8192.0}, {"window_span", 8192.0}, }, 1099511627776.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H16_Sq16384_D128_causal_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 16384.0}, {"S_q", 16384.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 134217728.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 134217728.0}, {"window_rows", 16384.0}, {"window_span", 16384.0}, }, 2199023255552.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H16_Sq32768_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 32768.0}, {"S_q", 32768.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 536870912.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 536870912.0}, {"window_rows", 32768.0}, {"window_span", 32768.0}, }, 4398046511104.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B3_H16_Sq5000_D128_bf16", {{"B", 3.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 5000.0}, {"S_q", 5000.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 25000000.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 12500000.0}, {"window_rows", 5000.0}, {"window_span", 5000.0}, }, 614400000000.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H16_Sq12345_D128_causal_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 16.0}, {"H_kv", 16.0}, {"S_kv", 12345.0}, {"S_q", 12345.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 76199512.5}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 76199512.5}, {"window_rows", 12345.0}, {"window_span", 12345.0}, }, 624226406400.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B2_H24_Hkv6_Sq6144_D128_causal_bf16", {{"B", 2.0}, {"D", 128.0}, {"H", 24.0}, {"H_kv", 6.0}, {"S_kv", 6144.0}, {"S_q", 6144.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 18874368.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 18874368.0}, {"window_rows", 6144.0}, {"window_span", 6144.0}, }, 463856467968.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B4_H8_Sq2048_Skv9000_D128_bf16", {{"B", 4.0}, {"D", 128.0}, {"H", 8.0}, {"H_kv", 8.0}, {"S_kv", 9000.0}, {"S_q", 2048.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 18432000.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 16334848.0}, {"window_rows", 2048.0}, {"window_span", 9000.0}, }, 301989888000.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Sq64_D64_bf16", {{"B", 1.0}, {"D", 64.0}, {"H", 2.0}, {"H_kv", 2.0}, {"S_kv", 64.0}, {"S_q", 64.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 4096.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2048.0}, {"window_rows", 64.0}, {"window_span", 64.0}, }, 2097152.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Sq64_D64_causal_bf16", {{"B", 1.0}, {"D", 64.0}, {"H", 2.0}, {"H_kv", 2.0}, {"S_kv", 64.0}, {"S_q", 64.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 2048.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2048.0}, {"window_rows", 64.0}, {"window_span", 64.0}, }, 1048576.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Sq64_D128_bf16", {{"B", 1.0}, {"D", 128.0}, {"H", 2.0}, {"H_kv", 2.0}, {"S_kv", 64.0}, {"S_q", 64.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 4096.0}, {"scale", 0.088388347648318433}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 2048.0}, {"window_rows", 64.0}, {"window_span", 64.0}, }, 4194304.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H3_Hkv1_Sq256_D64_bf16", {{"B", 1.0}, {"D", 64.0}, {"H", 3.0}, {"H_kv", 1.0}, {"S_kv", 256.0}, {"S_q", 256.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 65536.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 32768.0}, {"window_rows", 256.0}, {"window_span", 256.0}, }, 50331648.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H1_Sq128_D256_bf16", {{"B", 1.0}, {"D", 256.0}, {"H", 1.0}, {"H_kv", 1.0}, {"S_kv", 128.0}, {"S_q", 128.0}, {"causal", 0.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 16384.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8192.0}, {"window_rows", 128.0}, {"window_span", 128.0}, }, 16777216.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Hkv1_Sq128_D256_causal_bf16", {{"B", 1.0}, {"D", 256.0}, {"H", 2.0}, {"H_kv", 1.0}, {"S_kv", 128.0}, {"S_q", 128.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 8192.0}, {"scale", 0.0625}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 8192.0}, {"window_rows", 128.0}, {"window_span", 128.0}, }, 16777216.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
    {"B1_H2_Sq256_D64_causal_bf16", {{"B", 1.0}, {"D", 64.0}, {"H", 2.0}, {"H_kv", 2.0}, {"S_kv", 256.0}, {"S_q", 256.0}, {"causal", 1.0}, {"dtype", 3.0}, {"element_bytes", 2.0}, {"pairs", 32768.0}, {"scale", 0.125}, {"softcap", 0.0}, {"window", 0.0}, {"window_before", 32768.0}, {"window_rows", 256.0}, {"window_span", 256.0}, }, 16777216.0, {{Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 3}, {Kind::normal, 0.0, 1.0, 0.0, 0.0, 2}, }},
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
