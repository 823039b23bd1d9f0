// cultivar-worker-cuda: compiles variants with NVRTC (`compile`, no GPU needed), or checks and times them
// on one GPU (`measure`).
#include "evaluators/targets/cuda/compiler.hpp"
#include "evaluators/targets/cuda/device.hpp"
#include "evaluators/worker/serve.hpp"

int main(int argc, char** argv) {
  using namespace cultivar;
  WorkerParts parts;
  parts.program = "cultivar-worker-cuda";
  parts.target = TargetKind::cuda;
  parts.compiler = [](const Task& task, const std::filesystem::path& cache,
                      bool contender) -> std::unique_ptr<Compiler> {
    CudaCompilerOptions options{cache / "cuda"};
    options.trusted = contender;
    options.limits.spill_bytes = task.limits.spill_bytes;
    return std::make_unique<CudaCompiler>(options);
  };
  parts.device = [](const std::filesystem::path& cache, int device) {
    return open_cuda_device(device, cache / "cuda");
  };
  return serve(parts, argc, argv);
}
