/*--- cultivar
name: compile_bomb
task: softmax
target: cpu
about: "Templates that instantiate themselves endlessly: the compiler must be stopped."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <cmath>

template <int N, class T>
struct Bomb {  // 2^60 types
  static constexpr int value = Bomb<N - 1, Bomb<N, T>*>::value + Bomb<N - 1, Bomb<N, T>**>::value;
};
template <class T>
struct Bomb<0, T> {
  static constexpr int value = 1;
};

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  (void)x, (void)y, (void)R, (void)C, (void)thread, (void)threads;
  y[0] = (float)Bomb<60, int>::value;
}
