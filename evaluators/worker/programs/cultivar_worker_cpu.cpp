// cultivar-worker-cpu: compiles variants (`compile`), or checks and times them (`measure`), on this machine's
// cores.
#include "evaluators/targets/cpu/compiler.hpp"
#include "evaluators/targets/cpu/device.hpp"
#include "evaluators/worker/serve.hpp"

int main(int argc, char** argv) {
  using namespace cultivar;
  WorkerParts parts;
  parts.program = "cultivar-worker-cpu";
  parts.target = TargetKind::cpu;
  parts.compiler = [](const CompilerOrder& order) -> std::unique_ptr<Compiler> {
    CpuCompilerOptions options{order.cache / "cpu"};
    options.trusted = order.contender;
    if (order.contender) options.flags = {"-isystem/usr/include/eigen3"};
    return std::make_unique<CpuCompiler>(options);
  };
  parts.device = [](const std::filesystem::path& cache, int device) -> std::unique_ptr<Device> {
    if (device != 0)
      throw MissingError("the cpu target has one device, number 0; `cores` says how many cores it has");
    return std::make_unique<CpuDevice>(CpuDeviceOptions{cache / "cpu"});
  };
  return serve(parts, argc, argv);
}
