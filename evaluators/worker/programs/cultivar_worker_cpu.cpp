// SPDX-License-Identifier: Apache-2.0
// cultivar-worker-cpu: compiles variants (`compile`), or checks and times them (`measure`), on this machine's
// cores.
#include "evaluators/languages/cpp/compiler.hpp"
#include "evaluators/devices/cpu/device.hpp"
#include "evaluators/devices/cpu/traits.hpp"
#include "evaluators/worker/serve.hpp"

int main(int argc, char** argv) {
  using namespace cultivar;
  WorkerParts parts;
  parts.target = cpu_target();
  parts.compiler = [](const CompilerOrder& order) -> std::unique_ptr<Compiler> {
    return std::make_unique<CpuCompiler>(CpuCompilerOptions{order.cache / "cpu"});
  };
  parts.device = [](const std::filesystem::path& cache, int device) -> std::unique_ptr<Device> {
    if (device != 0)
      throw MissingError("the cpu target has one device, number 0; use `cores` to set its number of cores");
    return std::make_unique<CpuDevice>(CpuDeviceOptions{cache / "cpu"});
  };
  return serve(parts, argc, argv);
}
