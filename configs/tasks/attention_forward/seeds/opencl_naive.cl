/*--- cultivar
name: attention_opencl_naive
task: attention_forward
target: opencl
about: "One work item for ROWS queries of a head, KEYS keys at a time: logits, then the weighted values with a running maximum."
requires: "dtype == f32"
tunables:
  ROWS: {values: [1, 2, 4, 8], default: 1}
  KEYS: {values: [1, 8, 16, 32, 64], default: 1}
  LANES: {values: [1, 8, 16, 32], default: 1}  # partial sums of a logit
  ITEMS: {values: [1, 2, 4], default: 1}       # work items of a group
specialize: [D]
let:
  blocks: "ceil_div(S_q, ROWS)"
launch:
  - kernel: attention_forward
    global: ["round_up(B * H * blocks, ITEMS)", 1, 1]
    local: [ITEMS, 1, 1]
    args: [q, k, v, o, lse, "B * H * blocks", blocks, H, H_kv, S_q, S_kv, causal, window, scale, softcap]
---*/

// The baseline. Any shape is taken.

float product(__private const float* q, __global const float* k) {
  float sums[LANES];
  for (int l = 0; l < LANES; ++l) sums[l] = 0.0f;
  int d = 0;
  for (; d + LANES <= D; d += LANES)
    for (int l = 0; l < LANES; ++l) sums[l] += q[d + l] * k[d + l];
  for (; d < D; ++d) sums[0] += q[d] * k[d];
  float sum = 0.0f;
  for (int l = 0; l < LANES; ++l) sum += sums[l];
  return sum;
}

__kernel void attention_forward(__global const float* q, __global const float* k, __global const float* v,
                                __global float* o, __global float* lse, int all, int blocks, int H, int H_kv, int S_q,
                                int S_kv, int causal, int window, float scale, float softcap) {
  const int block = get_global_id(0);
  if (block >= all) return;
  const int first_row = block % blocks * ROWS, h = block / blocks % H, b = block / blocks / H;
  const int rows = min(ROWS, S_q - first_row);
  const int h_kv = h / (H / H_kv);

  float queries[ROWS][D], sums[ROWS][D], tops[ROWS], weights[ROWS];
  int begins[ROWS], ends[ROWS];
  int begin = S_kv, end = 0;
  for (int r = 0; r < rows; ++r) {
    const int row = first_row + r, own = row + S_kv - S_q;  // a causal row sees the keys j <= own
    for (int d = 0; d < D; ++d) {
      queries[r][d] = q[(((size_t)b * S_q + row) * H + h) * D + d];
      sums[r][d] = 0.0f;
    }
    tops[r] = -INFINITY;
    weights[r] = 0.0f;
    begins[r] = window > 0 ? max(0, own - window + 1) : 0;
    ends[r] = S_kv;
    if (causal)
      ends[r] = min(S_kv, own + 1);
    else if (window > 0 && window < S_kv - own)
      ends[r] = own + window;
    begin = min(begin, begins[r]);
    end = max(end, ends[r]);
  }

  for (int from = begin; from < end; from += KEYS) {
    const int count = min(KEYS, end - from);
    for (int r = 0; r < rows; ++r) {
      float logits[KEYS];
      float top = tops[r];
      for (int j = 0; j < count; ++j) {
        logits[j] = -INFINITY;
        if (from + j < begins[r] || from + j >= ends[r]) continue;
        logits[j] = product(queries[r], k + (((size_t)b * S_kv + from + j) * H_kv + h_kv) * D) * scale;
        if (softcap > 0.0f) logits[j] = softcap * tanh(logits[j] / softcap);
        top = fmax(top, logits[j]);
      }
      if (top == -INFINITY) continue;
      if (top > tops[r]) {
        const float factor = exp(tops[r] - top);
        for (int d = 0; d < D; ++d) sums[r][d] *= factor;
        weights[r] *= factor;
        tops[r] = top;
      }
      for (int j = 0; j < count; ++j) {
        const float weight = exp(logits[j] - top);
        __global const float* value = v + (((size_t)b * S_kv + from + j) * H_kv + h_kv) * D;
        weights[r] += weight;
        for (int d = 0; d < D; ++d) sums[r][d] += weight * value[d];
      }
    }
  }

  for (int r = 0; r < rows; ++r) {
    const int row = first_row + r;
    const float factor = weights[r] > 0.0f ? 1.0f / weights[r] : 0.0f;
    for (int d = 0; d < D; ++d) o[(((size_t)b * S_q + row) * H + h) * D + d] = sums[r][d] * factor;
    lse[((size_t)b * H + h) * S_q + row] = weights[r] > 0.0f ? tops[r] + log(weights[r]) : -INFINITY;
  }
}
