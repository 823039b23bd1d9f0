/*--- cultivar
name: writes_nothing
task: softmax
target: cpu
about: "Returns at once and hopes that the buffer holds something."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  (void)x, (void)y, (void)R, (void)C, (void)thread, (void)threads;
}
