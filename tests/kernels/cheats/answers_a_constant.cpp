/*--- cultivar
name: answers_a_constant
task: softmax
target: cpu
about: "1 / C, which is nearly right for large C."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  (void)x;
  for (long i = thread; i < (long)R * C; i += threads) y[i] = 1.0f / (float)C;
}
