// SPDX-License-Identifier: Apache-2.0
#include "engine/export/target_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "embedded/launcher.hpp"
#include "engine/export/cpu_launcher.hpp"
#include "engine/export/cuda_launcher.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/target/tensor_alignment.hpp"
#include "evaluators/targets/cpu/traits.hpp"
#include "evaluators/targets/cuda/traits.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {
namespace {

// The flags of evaluators/targets/cpu, as CMake list items; a plain object needs no -shared.
constexpr std::string_view cpu_kernel_flags =
    "-std=c++20 -O3 -march=native -ffp-contract=fast -fno-exceptions -fno-rtti -fPIC";

Expected<TargetParts> cpu_parts(const LauncherInput& input, const std::vector<Specialisation>& served,
                                const Runtime&, std::vector<std::string> architectures) {
  if (!architectures.empty())
    throw InputError(
        "--arch is only for runs with target cuda; a cpu kernel is compiled on the machine that runs it");
  TargetParts parts;
  auto header = cpu_launcher_header(input, served);
  if (!header) return tl::make_unexpected(header.error());
  parts.files[input.task.name + ".hpp"] = std::move(*header);
  parts.cmake = launcher::cpu_CMakeLists_txt;
  parts.bench = launcher::cpu_bench_hpp;
  parts.device = launcher::cpu_device_hpp;
  parts.code = launcher::cpu_code_hpp;
  parts.values = {
      {"kernel_file", "kernel.cpp"},
      {"flags", std::string(cpu_kernel_flags)},
      {"build_parts", cpu_cmake_kernels(input, served)},
      {"build_sources", ""},
      {"oracle_flags", "-O3 -march=native"},
      {"search_device", "(1)"},
      {"fallback_example", ""},
      {"compiler_words", "by the C++ compiler of this machine"},
      {"stream", ""},
      {"gap", "                              "},
      {"needs", ""},
      {"device_checks", ""},
      {"alignment", std::to_string(kTensorAlignment)},
      {"target_files",
       "| `CMakeLists.txt` | the build: one object for each specialization, with tunables as macros |\n"}};
  return parts;
}

Expected<TargetParts> cuda_parts(const LauncherInput& input, const std::vector<Specialisation>& served,
                                 const Runtime& runtime, std::vector<std::string> architectures) {
  if (architectures.empty()) architectures.push_back(architecture_of(cuda_target(), input.facts));
  TargetParts parts;
  std::vector<CubinFile> cubins;
  std::string made_by;
  for (const std::string& architecture : architectures) {
    ServiceOptions options;
    options.target = cuda_target();
    options.programs = runtime.programs;
    options.cache = runtime.cache;
    options.task_folder = input.task.folder;
    options.architecture = architecture;
    options.compile_workers = 2;
    CompileService service(options);
    std::vector<Workload> workloads = input.workloads;
    workloads.insert(workloads.end(), input.covered.begin(), input.covered.end());
    const auto compiled = service.compile(input.variant, workloads);
    if (!compiled)
      return failure(
          "export",
          fmt::format(
              "the kernel does not compile for {} (some instructions, such as wgmma of sm_90a, exist on one "
              "generation only; choose another with --arch): {}\n{}",
              architecture, compiled.error().reason, compiled.error().diagnostics));
    const std::string identity = service.compiler_identity();  // "NVRTC 13.0 sm_90a ..."
    made_by = identity.substr(0, identity.find(' ', identity.find(' ') + 1));
    for (std::size_t s = 0; s < served.size(); ++s) {
      const Binary* const binary = compiled->binary(served[s].macros);
      auto bytes = read_file(binary->path);
      if (!bytes) return tl::make_unexpected(bytes.error());
      cubins.push_back({s, architecture, fmt::format("{}.{}.cubin", served[s].suffix, architecture)});
      parts.files["cubin/" + cubins.back().name] = std::move(*bytes);
    }
  }
  auto header = cuda_launcher_header(input, served, cubins, made_by);
  if (!header) return tl::make_unexpected(header.error());
  parts.files[input.task.name + ".hpp"] = std::move(*header);
  parts.files["cubins.cpp"] = cuda_cubin_source(input.variant, cubins);
  parts.cmake = launcher::cuda_CMakeLists_txt;
  parts.bench = launcher::cuda_bench_hpp;
  parts.device = launcher::cuda_device_hpp;
  parts.code = launcher::cuda_code_hpp;
  const std::string names = fmt::format("{}", fmt::join(architectures, ", "));
  parts.values = {
      {"kernel_file", "kernel.cu"},
      {"architectures", names},
      {"build_parts", fmt::format("cultivar_cubins({0}cubins.cpp {0}cubin)\n", input.folder)},
      {"build_sources", fmt::format(" {}cubins.cpp", input.folder)},
      {"oracle_flags", ""},
      {"search_device", ""},
      {"fallback_example", ", CUstream_st*, void*"},
      {"compiler_words", "by NVRTC, if it is installed"},
      {"stream", ", stream"},
      {"gap", "                      "},
      {"alignment", std::to_string(kTensorAlignment)},
      {"device_checks",
       ";\n- that the tensors are memory of the GPU that the object was made for, and its context is "
       "current"},
      {"needs",
       fmt::format("\nIt needs a GPU of {} and NVIDIA's driver, but neither a CUDA toolkit nor Cultivar.",
                   names)},
      {"target_files",
       fmt::format(
           "| `{0}cubin/` | the machine code for each specialization and architecture, with fixed "
           "tunables |\n"
           "| `{0}cubins.cpp`, `CMakeLists.txt` | build it into a library that the launcher links |\n",
           input.folder.empty() ? "" : "kernels/*/")}};
  parts.architectures = std::move(architectures);
  return parts;
}

}  // namespace

Exporter exporter_of(Target target) {
  for (const auto& [of, exporter] :
       {std::pair<Target, Exporter>(cpu_target(), cpu_parts), {cuda_target(), cuda_parts}})
    if (of == target) return exporter;
  return nullptr;
}

}  // namespace cultivar
