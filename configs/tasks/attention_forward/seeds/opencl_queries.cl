/*--- cultivar
name: attention_opencl_queries
task: attention_forward
target: opencl
about: "Eight queries of a head side by side in vectors, KEYS keys at a time; a running maximum for each query."
requires: "dtype == f32"
tunables:
  KEYS: {values: [1, 2, 4, 8], default: 4}
  ITEMS: {values: [1, 2, 4], default: 1}  # work items of a group
specialize: [D]
let:
  blocks: "ceil_div(S_q, 8)"
launch:
  - kernel: attention_forward
    global: ["round_up(B * H * blocks, ITEMS)", 1, 1]
    local: [ITEMS, 1, 1]
    args: [q, k, v, o, lse, "B * H * blocks", blocks, H, H_kv, S_q, S_kv, causal, window, scale, softcap]
---*/

// Any shape is taken: queries beyond the last one repeat it, and are not stored.

__kernel void attention_forward(__global const float* q, __global const float* k, __global const float* v,
                                __global float* o, __global float* lse, int all, int blocks, int H, int H_kv, int S_q,
                                int S_kv, int causal, int window, float scale, float softcap) {
  const int block = get_global_id(0);
  if (block >= all) return;
  const int first_row = block % blocks * 8, h = block / blocks % H, b = block / blocks / H;
  const int rows = min(8, S_q - first_row);
  const int h_kv = h / (H / H_kv);
  const size_t stride = (size_t)H_kv * D;

  float8 queries[D], sums[D];
  for (int d = 0; d < D; ++d) {
    float lanes[8];
    for (int r = 0; r < 8; ++r) lanes[r] = q[(((size_t)b * S_q + first_row + min(r, rows - 1)) * H + h) * D + d];
    queries[d] = vload8(0, lanes) * scale;
    sums[d] = (float8)(0.0f);
  }
  // A causal row sees the keys j <= own.
  const int8 own = min((int8)(0, 1, 2, 3, 4, 5, 6, 7), (int8)(rows - 1)) + (first_row + S_kv - S_q);
  int8 begins = (int8)(0), ends = (int8)(S_kv);
  if (window > 0) begins = max(begins, own - (window - 1));
  if (causal)
    ends = min(ends, own + 1);
  else if (window > 0)
    ends = min(S_kv - own, (int8)(window)) + own;
  const int begin = begins.s0, end = ends.s7;

  float8 tops = (float8)(-INFINITY), weights = (float8)(0.0f);
  for (int from = begin; from < end; from += KEYS) {
    const int count = min(KEYS, end - from);
    __global const float* key = k + (((size_t)b * S_kv + from) * H_kv + h_kv) * D;
    __global const float* value = v + (((size_t)b * S_kv + from) * H_kv + h_kv) * D;
    float8 logits[KEYS];
    size_t offsets[KEYS];  // beyond the last key: that key again, with the weight 0
    float8 top = tops;
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
      logits[j] = (float8)(0.0f);
      offsets[j] = (size_t)min(j, count - 1) * stride;
    }
    for (int d = 0; d < D; ++d)
#pragma unroll
      for (int j = 0; j < KEYS; ++j) logits[j] += queries[d] * key[offsets[j] + d];
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
      if (softcap > 0.0f) logits[j] = softcap * tanh(logits[j] / softcap);
      const int8 at = (int8)(from + j);
      logits[j] = select((float8)(-INFINITY), logits[j], at >= begins && at < ends && at < (int8)(end));
      top = fmax(top, logits[j]);
    }
    // Rows that have seen no key yet keep -inf, and have no weights.
    const float8 base = select(top, (float8)(0.0f), top == (float8)(-INFINITY));
    const float8 factor = exp(tops - base);
    float8 sum = (float8)(0.0f);
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
      logits[j] = exp(logits[j] - base);
      sum += logits[j];
    }
    weights = weights * factor + sum;
    tops = top;
    for (int d = 0; d < D; ++d) {
      float8 all_of_it = sums[d] * factor;
#pragma unroll
      for (int j = 0; j < KEYS; ++j) all_of_it += logits[j] * value[offsets[j] + d];
      sums[d] = all_of_it;
    }
  }

  const float8 factor = select((float8)(0.0f), 1.0f / weights, weights > (float8)(0.0f));
  const float8 logarithms = select((float8)(-INFINITY), tops + log(weights), weights > (float8)(0.0f));
  float lanes[8];
  for (int d = 0; d < D; ++d) {
    vstore8(sums[d] * factor, 0, lanes);
    for (int r = 0; r < rows; ++r) o[(((size_t)b * S_q + first_row + r) * H + h) * D + d] = lanes[r];
  }
  vstore8(logarithms, 0, lanes);
  for (int r = 0; r < rows; ++r) lse[((size_t)b * H + h) * S_q + first_row + r] = lanes[r];
}
