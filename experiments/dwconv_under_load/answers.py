#!/usr/bin/env python3
"""The model of the search: takes SECONDS, then gives the next of 24 kernels, whatever it was asked. `answers.py FOLDER SECONDS`.

FOLDER counts the answers, so that two searches get the same ones in the same order."""
import fcntl
import pathlib
import re
import sys
import time

KERNEL = r"""/*--- cultivar
name: dwconv_{name}
task: dwconv3x3
target: cpu
about: "Whole rows, {rows} at a time, the interior on vectors of {width} floats, {unroll} in flight"
requires: "dtype == f32"
launch:
  - kernel: dwconv3x3
    threads: num_cores
    args: [x, k, b, y, {{value: "N * C", type: i32}}, C, H, W, thread, threads]
---*/
#include <cstddef>

typedef float V __attribute__((vector_size({bytes}), aligned(4), may_alias));

extern "C" void dwconv3x3(const float* x, const float* k, const float* b, float* y, int planes, int C, int H, int W,
                          int thread, int threads) {{
  const std::ptrdiff_t first = std::ptrdiff_t(planes) * thread / threads, last = std::ptrdiff_t(planes) * (thread + 1) / threads;
  for (std::ptrdiff_t p = first; p < last; ++p) {{
    const float* in = x + p * H * W;
    float* out = y + p * H * W;
    const float* f = k + p % C * 9;
    const float bias = b[p % C];
    for (int h0 = 0; h0 < H; h0 += {rows})
      for (int h = h0; h < h0 + {rows} && h < H; ++h) {{
        const float* rows[3];
        float w[9];
        for (int i = 0; i < 3; ++i) {{
          const bool inside = h + i >= 1 && h + i <= H;
          rows[i] = in + std::ptrdiff_t(inside ? h + i - 1 : h) * W;
          for (int j = 0; j < 3; ++j) w[3 * i + j] = inside ? f[3 * i + j] : 0.0f;
        }}
        float* to = out + std::ptrdiff_t(h) * W;
        const auto one = [&](int c) {{
          float s = bias;
          for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
              if (c + j >= 1 && c + j <= W) s += w[3 * i + j] * rows[i][c + j - 1];
          to[c] = s > 0.0f ? s : 0.0f;
        }};
        int c = 0;
        if (c < W) one(c++);
        for (; c + {step} < W; c += {step}) {{
          V s[{unroll}];
          for (int u = 0; u < {unroll}; ++u) s[u] = V{{}} + bias;
          for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
              for (int u = 0; u < {unroll}; ++u) s[u] += w[3 * i + j] * *(const V*)(rows[i] + c + j - 1 + {width} * u);
          for (int u = 0; u < {unroll}; ++u) *(V*)(to + c + {width} * u) = s[u] > 0.0f ? s[u] : V{{}};
        }}
        for (; c < W; ++c) one(c);
      }}
  }}
}}
"""


def main():
    folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    prompt = sys.stdin.read()
    time.sleep(seconds)
    if "STRATEGY:" in prompt and "Do not write code" in prompt:
        print("STRATEGY: vectors of 16 floats in the interior of each row\nSTRATEGY: two vectors in flight for each row\n"
              "STRATEGY: stores that bypass the caches for whole lines of y")
        return
    if "EVIDENCE:" in prompt and "not yet a repair" in prompt:
        line = re.search(r"^\| \S+ \|.*$", prompt, re.M)
        print(f"EVIDENCE: {line.group(0) if line else 'x'}\nCAUSE: the interior is not on whole vectors")
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "count", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = len(file.read())
        file.write("x")
    width, unroll, rows = [4, 8, 16][number % 3], [1, 2, 4, 8][number // 3 % 4], [1, 4][number // 12 % 2]
    print(f"IDEA: vectors of {width} floats, {unroll} in flight, {rows} rows\n\n```cpp\n" + KERNEL.format(
        name=f"v{width}_{unroll}_{rows}", width=width, unroll=unroll, rows=rows, bytes=4 * width, step=width * unroll) + "```")


main()
