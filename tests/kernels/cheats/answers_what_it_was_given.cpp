/*--- cultivar
name: answers_what_it_was_given
task: softmax
target: cpu
about: "Copies the input."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  for (long i = thread; i < (long)R * C; i += threads) y[i] = x[i];
}
