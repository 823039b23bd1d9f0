/*--- cultivar
name: k19_ce_negligible
task: cross_entropy
target: cpu
about: "One row at a time in plain loops: maximum, exponentials and their sum, division."
requires: "dtype == f32"
let:
  team: "num_cores"
launch:
  - kernel: cross_entropy
    threads: team
    args: [logits, targets, loss, dlogits, R, V, ignore_index, thread, threads]
---*/

// The baseline: rows are dealt out evenly over the threads. Any shape is taken.

#include <cmath>
#include <cstddef>

extern "C" void cross_entropy(const float* logits, const long long* targets, float* loss, float* dlogits, int R, int V,
                              int ignore_index, int thread, int threads) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(R) * thread / threads;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(R) * (thread + 1) / threads;
  for (std::ptrdiff_t row = first; row < last; ++row) {
    const float* in = logits + row * V;
    float* out = dlogits + row * V;
    const long long target = targets[row];
    if (target == ignore_index) {
      loss[row] = 0.0f;
      for (int v = 0; v < V; ++v) out[v] = 0.0f;
      continue;
    }
    float top = -INFINITY, sum = 0.0f;
    for (int v = 0; v < V; ++v) top = in[v] > top ? in[v] : top;
    for (int v = 0; v < V; ++v) {
      // e^-18 is less than half a unit in the last place of the sum, which is at least 1
      out[v] = in[v] - top > -18 ? std::exp(in[v] - top) : 0.0f;
      sum += out[v];
    }
    for (int v = 0; v < V; ++v) out[v] /= sum;
    out[target] -= 1.0f;
    loss[row] = std::log(sum) + (top - in[target]);
  }
}
