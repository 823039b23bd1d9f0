// Launches a kernel that mark.py made, as its manifest says (D 128, bf16, as many heads of keys as of queries, SPLIT 8, SECTION_MB
// 32), thirty times, and writes what it marked in every eleventh block.
//   nvcc -arch=sm_90a -std=c++17 -O2 -o timeline timeline.cu        here or there; it needs a driver to run, and no toolkit
//   ./timeline CUBIN BATCH LENGTH causal=0|1 KEYS SHARED_BYTES OUT [pairs]
// KEYS and SHARED_BYTES are the manifest's `keys` and `smem`; pairs: as with PAIRS=1.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define OK(call)                                                                 \
  do {                                                                           \
    const int status = static_cast<int>(call);                                   \
    if (status != 0) std::printf("%s: error %d\n", #call, status), std::exit(1); \
  } while (0)

int main(int count, char** words) {
  const int wide = count == 9 && std::strcmp(words[8], "pairs") == 0 ? 2 : 1;
  if ((count != 8 && wide == 1) || std::strncmp(words[4], "causal=", 7) != 0)
    return std::puts("timeline CUBIN BATCH LENGTH causal=0|1 KEYS SHARED_BYTES OUT [pairs]"), 2;
  int B = std::atoi(words[2]), S = std::atoi(words[3]), causal = std::atoi(words[4] + 7), keys = std::atoi(words[5]);
  const int shared = std::atoi(words[6]), runs = 30, unmeasured = 6;
  int H = 16, D = 128, group = 1, processors = 0;
  OK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));

  cudaLibrary_t library;
  cudaKernel_t kernel;
  OK(cudaLibraryLoadFromFile(&library, words[1], nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cudaLibraryGetKernel(&kernel, library, "attention_forward"));
  const void* const function = reinterpret_cast<const void*>(kernel);
  OK(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));

  // About normal: power depends on the bits.
  const size_t n = static_cast<size_t>(B) * S * H * D;
  std::vector<unsigned short> numbers(n);
  unsigned state = 1;
  for (unsigned short& number : numbers) {
    float sum = 0;
    for (int i = 0; i < 4; ++i) state = state * 1664525u + 1013904223u, sum += (state >> 8) / 16777216.0f - 0.5f;
    sum *= 1.7f;
    unsigned bits;
    std::memcpy(&bits, &sum, 4);
    number = static_cast<unsigned short>(bits >> 16);
  }
  void *q, *k, *v, *o;
  for (void** tensor : {&q, &k, &v, &o}) OK(cudaMalloc(tensor, n * 2));
  for (void* tensor : {q, k, v}) OK(cudaMemcpy(tensor, numbers.data(), n * 2, cudaMemcpyHostToDevice));
  const size_t each = 2 * 8192;  // marks of a block
  unsigned *marks, *ticket;
  float* parts;
  OK(cudaMalloc(&marks, processors * each * 4));
  OK(cudaMalloc(&ticket, 1 << 20));
  OK(cudaMalloc(&parts, 256 << 20));

  void* found;
  OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, nullptr));
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  const auto map_of = [&](void* tensor, int rows, CUtensorMapL2promotion promotion) {
    CUtensorMap map;
    const cuuint64_t sizes[4] = {128, cuuint64_t(H), cuuint64_t(S), cuuint64_t(B)};
    const cuuint64_t strides[3] = {256, cuuint64_t(H) * 256, cuuint64_t(S) * H * 256};
    const cuuint32_t box[4] = {64, 1, cuuint32_t(rows), 1}, steps[4] = {1, 1, 1, 1};
    OK(encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, tensor, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
              CU_TENSOR_MAP_SWIZZLE_128B, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
  };
  CUtensorMap map_q = map_of(q, 64, CU_TENSOR_MAP_L2_PROMOTION_L2_128B), map_o = map_of(o, 16, CU_TENSOR_MAP_L2_PROMOTION_NONE);
  CUtensorMap map_k = map_of(k, keys, CU_TENSOR_MAP_L2_PROMOTION_L2_256B), map_v = map_of(v, keys, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);

  const int blocks = processors / wide;
  int m_tiles = (S + 127) / 128 / wide, tiles = B * H * m_tiles, left = tiles % blocks;
  int parted = !causal && left * 8 <= blocks ? left : 0, whole = tiles - parted, units = whole + parted * 8;
  int section = causal ? std::clamp(static_cast<int>((32ll << 20) / (4ll * S * D)), 1, B * H) : 1;
  float scale = 0.08838834764f;
  void* arguments[] = {&map_q, &map_k, &map_v, &map_o, &o, &marks, &ticket, &parts, &H, &group, &S, &S, &m_tiles, &tiles,
                       &whole, &units, &section, &scale};
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(wide), 1, 1};
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(std::min(units, blocks) * wide), launch.blockDim = dim3(384), launch.dynamicSmemBytes = shared;
  launch.attrs = &cluster, launch.numAttrs = 1;
  cudaEvent_t begin, end;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int run = 0; run < runs; ++run) {
    OK(cudaMemset(ticket, 0, 1 << 20));
    OK(cudaMemset(marks, 0, processors * each * 4));
    OK(cudaEventRecord(begin));
    OK(cudaLaunchKernelExC(&launch, function, arguments));
    OK(cudaEventRecord(end));
    OK(cudaEventSynchronize(end));
    times.push_back(0);
    OK(cudaEventElapsedTime(&times.back(), begin, end));
  }
  std::sort(times.begin() + unmeasured, times.end());
  const float median = times[(unmeasured + runs) / 2];
  std::printf("%s: %d x %d, causal %d: %.4f ms, %.1f TFLOPS\n", words[1], B, S, causal, median,
              4.0 * B * H * S * S * D * (causal ? 0.5 : 1.0) / median / 1e9);
  std::vector<unsigned> all(processors * each);
  OK(cudaMemcpy(all.data(), marks, all.size() * 4, cudaMemcpyDeviceToHost));
  FILE* const file = std::fopen(words[7], "wb");
  if (file == nullptr) return std::perror(words[7]), 1;
  for (int block = 0; block < processors; block += 11) std::fwrite(&all[block * each], 4, each, file);
  return std::fclose(file);
}
