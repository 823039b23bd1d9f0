/*--- cultivar
name: writes_nothing
task: softmax
target: cpu
about: "Returns immediately and relies on old contents of the buffer."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  (void)x, (void)y, (void)R, (void)C, (void)thread, (void)threads;
}
