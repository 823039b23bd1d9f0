// A contender for softmax on cuda that copies through the host, so its launch waits for the stream:
// correct, slow, and not allowed. During timing the stream is blocked until everything is queued, so the
// launch never returns.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cultivar_contender.h"

namespace {

using Copy = int (*)(unsigned long long, const void*, unsigned long, void*);
using Fetch = int (*)(void*, unsigned long long, unsigned long, void*);
using Wait = int (*)(void*);

long rows, columns;

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static const cultivar_contender_description told = {CULTIVAR_CONTENDER_ABI, "waits", "1", "softmax",
                                                      "cuda"};
  return &told;
}

extern "C" int32_t cultivar_contender_prepare(const cultivar_contender_workload* workload, void** handle) {
  rows = workload->tensors[0].extents[0];
  columns = workload->tensors[0].extents[1];
  *handle = nullptr;
  return CULTIVAR_CONTENDER_OK;
}

extern "C" int32_t cultivar_contender_launch(void*, void* const* data, void* stream) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto fetch = reinterpret_cast<Fetch>(dlsym(driver, "cuMemcpyDtoHAsync_v2"));
  const auto copy = reinterpret_cast<Copy>(dlsym(driver, "cuMemcpyHtoDAsync_v2"));
  const auto wait = reinterpret_cast<Wait>(dlsym(driver, "cuStreamSynchronize"));
  std::vector<float> x(static_cast<std::size_t>(rows * columns));
  const auto bytes = static_cast<unsigned long>(4 * rows * columns);
  fetch(x.data(), reinterpret_cast<unsigned long long>(data[0]), bytes, stream);
  wait(stream);
  for (long r = 0; r < rows; ++r) {
    float* row = x.data() + r * columns;
    const float top = *std::max_element(row, row + columns);
    double sum = 0.0;
    for (long c = 0; c < columns; ++c) sum += row[c] = std::exp(row[c] - top);
    for (long c = 0; c < columns; ++c) row[c] = static_cast<float>(row[c] / sum);
  }
  copy(reinterpret_cast<unsigned long long>(data[1]), x.data(), bytes, stream);
  return wait(stream) == 0 ? CULTIVAR_CONTENDER_OK : CULTIVAR_CONTENDER_FAILED;
}

extern "C" void cultivar_contender_release(void*) {}

extern "C" const char* cultivar_contender_last_error() {
  return "a copy failed";
}
