/*--- cultivar
name: compile_bomb
task: softmax
target: cuda
about: "Templates that double at each level: compiling takes minutes and gigabytes"
requires: "dtype == f32"
launch:
  - kernel: softmax
    grid: [R, 1, 1]
    block: [32, 1, 1]
    args: [x, y, C]
---*/

template <int N, class T>
struct Bomb {  // 2^60 types
  static constexpr int value = Bomb<N - 1, Bomb<N, T>*>::value + Bomb<N - 1, Bomb<N, T>**>::value;
};
template <class T>
struct Bomb<0, T> {
  static constexpr int value = 1;
};

extern "C" __global__ void softmax(const float* x, float* y, int C) {
  y[C] = x[0] * static_cast<float>(Bomb<60, int>::value);
}
