// SPDX-License-Identifier: Apache-2.0
// cultivar-worker-cuda: compiles variants with NVRTC (`compile`, no GPU needed), or checks and times them
// on one GPU (`measure`).
#include "evaluators/languages/cuda_cpp/compiler.hpp"
#include "evaluators/devices/cuda/run/device.hpp"
#include "evaluators/devices/cuda/traits.hpp"
#include "evaluators/worker/serve.hpp"

int main(int argc, char** argv) {
  using namespace cultivar;
  WorkerParts parts;
  parts.target = cuda_target();
  parts.compiler = [](const CompilerOrder& order) -> std::unique_ptr<Compiler> {
    CudaCompilerOptions options{order.cache / "cuda"};
    options.limits = order.task.limits;
    if (!order.architecture.empty()) options.architecture = order.architecture;
    return std::make_unique<CudaCompiler>(options);
  };
  parts.device = [](const std::filesystem::path& cache, int device) {
    return open_cuda_device(device, cache / "cuda");
  };
  return serve(parts, argc, argv);
}
