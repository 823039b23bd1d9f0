// SPDX-License-Identifier: Apache-2.0
// The manifest of design.md section 4, verbatim (it is an excerpt that names map_k and map_v without defining
// them), a completed version of it, and a small cpu variant.
#pragma once

#include <string>

#include "evaluators/variant/variant.hpp"

namespace cultivar::example {

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the example lacks: " + from);
  return text.replace(at, from.size(), to);
}

// clang-format off
inline const std::string excerpt = R"YAML(    /*--- cultivar
    name: flash_pingpong
    task: attention_forward
    target: cuda
    requires: "D == 128 && dtype == bf16"       # which workloads it claims
    tunables:
      BLOCK_M: {values: [64, 128, 192], default: 128}
      BLOCK_N: {values: [64, 80, 96, 112, 128, 160, 176], default: 128}
      STAGES:  {values: [2, 3, 4], default: 2}
    constraints: ["smem <= 232448"]
    specialize: [D, causal, dtype]              # become macros, one compile each
    let:
      smem: "(BLOCK_M + 2*STAGES*BLOCK_N) * D * 2 + 1024"
      m_blocks: "ceil_div(S_q, BLOCK_M)"
    workspace:
      ticket: {bytes: 4, zero: true}            # zeroing is inside the timed region
    tensor_maps:
      map_q: {tensor: q, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D], box: [64, 1, BLOCK_M, 1], swizzle: 128B}
    launch:
      - kernel: attention_forward
        grid: [num_sms, 1, 1]
        block: [384, 1, 1]
        cluster: [1, 1, 1]
        shared: smem
        args: [map_q, map_k, map_v, o, lse, ticket, B, H, H_kv, S_q, S_kv, scale]
    ---*/
extern "C" __global__ void attention_forward() {}
)YAML";

inline const std::string cuda = replaced(excerpt, "    launch:\n", R"YAML(      map_k: {tensor: k, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D], box: [64, 1, BLOCK_N, 1], swizzle: 128B}
      map_v: {tensor: v, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D], box: [64, 1, BLOCK_N, 1], swizzle: 128B}
    launch:
)YAML");

inline const std::string cpu = R"YAML(/*--- cultivar
name: tiny
task: attention_forward
target: cpu
requires: "dtype == f32"
tunables:
  TILE: {values: [32, 64], default: 64}
  LAYOUT: {values: [row, packed], default: packed}
constraints: ["S_kv >= TILE || LAYOUT == LAYOUT_row"]
specialize: [D, causal, scale, dtype]
let:
  team: "num_cores"
workspace:
  scratch: {bytes: "4 * team * TILE"}
launch:
  - kernel: attention_forward
    threads: team
    args: [q, k, v, o, lse, scratch, S_q, causal, scale, {value: "S_q * 2.5", type: f64}, TILE, thread, threads]
---*/
extern "C" void attention_forward() {}
)YAML";
// clang-format on

inline const Facts cpu_facts{{"num_cores", 2},  {"l1_bytes", 32768},  {"l2_bytes", 1048576},
                             {"l3_bytes", 3e7}, {"vector_bits", 512}, {"page_bytes", 4096}};
inline const Facts cuda_facts{{"num_sms", 132},         {"smem_max", 232448},  {"l2_bytes", 52428800},
                              {"registers_max", 65536}, {"threads_max", 2048}, {"compute_capability", 90}};

inline const Task& attention() {
  static const Task task = load_task(CULTIVAR_SOURCE_DIR "/configs/tasks/attention_forward");
  return task;
}

}  // namespace cultivar::example
