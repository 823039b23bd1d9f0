/*--- cultivar
name: rms_norm_short_rows
task: rms_norm
target: cpu
about: "Correct; does its work three times where rows are longer than 1024; takes rows of at most 8192."
requires: "dtype == f32 && C <= 8192"
launch:
  - kernel: rms_norm
    threads: 1
    args: [x, y, R, C, eps]
---*/
#include <cmath>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps) {
  const int times = C > 1024 ? 3 : 1;
  for (int r = 0; r < R; ++r, x += C, y += C)
    for (int t = 0; t < times; ++t) {
      float norms[8] = {float(t) * 1e-30f};
      int c = 0;
      for (; c + 8 <= C; c += 8)
        for (int l = 0; l < 8; ++l) norms[l] = std::hypot(norms[l], x[c + l]);
      double sum = 0.0;
      for (const float norm : norms) sum += double(norm) * double(norm);
      for (; c < C; ++c) sum += double(x[c]) * double(x[c]);
      const float scale = float(1.0 / std::sqrt(sum / C + double(eps)));
      for (int i = 0; i < C; ++i) y[i] = x[i] * scale;
    }
}
