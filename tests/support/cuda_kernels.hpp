// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the cuda target's host half: one compiler whose cache outlives them, and the real
// kernels under tests/kernels/cuda. Needs NVRTC but no GPU; a suite with `needs_nvrtc()` is skipped without
// NVRTC.
#pragma once

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/languages/cuda_cpp/compiler.hpp"
#include "evaluators/languages/cuda_cpp/toolkit.hpp"

namespace cultivar::cuda_test {

namespace fs = std::filesystem;

inline const fs::path source_folder = CULTIVAR_SOURCE_DIR;
inline const fs::path kernel_folder = source_folder / "tests/kernels/cuda";
inline const fs::path nvrtc_program = fs::path(CULTIVAR_BIN_DIR) / "cultivar-nvrtc";
inline const fs::path cache_folder = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";

inline const Expected<CudaToolkit>& toolkit() {
  static const Expected<CudaToolkit> found = find_cuda_toolkit(nvrtc_program);
  return found;
}

inline boost::test_tools::assertion_result nvrtc_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(toolkit().has_value());
  if (!toolkit()) here.message() << toolkit().error().message;
  return here;
}
inline auto needs_nvrtc() {
  return boost::unit_test::precondition(nvrtc_is_here);
}

inline CudaCompilerOptions options(const fs::path& cache = cache_folder) {
  CudaCompilerOptions result;
  result.cache = cache;
  result.program = nvrtc_program;
  return result;
}
inline CudaCompiler& compiler() {
  static CudaCompiler instance(options());
  return instance;
}

struct FreshCache {
  fs::path folder;
  explicit FreshCache(const std::string& name)
      : folder(fs::temp_directory_path() / ("cultivar-" + name + "-" + std::to_string(::getpid()))) {
    fs::remove_all(folder);
  }
  ~FreshCache() { fs::remove_all(folder); }
};

inline const Task& task_named(const std::string& name) {
  static const Task softmax = load_task(source_folder / "configs/tasks/softmax"),
                    attention = load_task(source_folder / "configs/tasks/attention_forward");
  return name == "softmax" ? softmax : attention;
}

inline std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  BOOST_REQUIRE_MESSAGE(!text.empty(), file.string());
  return text;
}

inline Variant variant_of(const std::string& source, const Configuration& configuration = {}) {
  const std::string task =
      source.find("task: softmax") == std::string::npos ? "attention_forward" : "softmax";
  auto variant = make_variant(source, task_named(task), configuration);
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().message));
  return *std::move(variant);
}
inline Variant kernel(const std::string& name, const Configuration& configuration = {}) {
  return variant_of(text_of(kernel_folder / name), configuration);
}

// A source without a manifest whose launches have only these arguments.
inline Variant by_hand(std::string source, std::vector<std::string> kernels,
                       std::vector<ArgumentSpec> args = {}) {
  Variant variant;
  variant.source = std::move(source);
  variant.manifest.target = target_named("cuda");
  for (std::string& name : kernels) {
    variant.manifest.launch.emplace_back().kernel = std::move(name);
    variant.manifest.launch.back().args = args;
  }
  return variant;
}

// A workload that the variant claims, from the sweep of its task or otherwise constructed.
inline std::vector<std::string> macros_for(const Variant& variant, Dtype dtype = Dtype::bf16) {
  if (variant.manifest.task.empty()) return {};
  Workload workload;
  workload.name = "test";
  workload.dtype = variant.manifest.task == "softmax" ? Dtype::f32 : dtype;
  for (const auto& [name, value] : std::map<std::string, double>{{"R", 64},
                                                                 {"C", 512},
                                                                 {"B", 2},
                                                                 {"H", 4},
                                                                 {"H_kv", 4},
                                                                 {"S_q", 256},
                                                                 {"S_kv", 512},
                                                                 {"D", 64},
                                                                 {"causal", 0},
                                                                 {"scale", 0.125},
                                                                 {"window", 0},
                                                                 {"softcap", 0}})
    workload.values[name] = value;
  return macros(variant, task_named(variant.manifest.task), workload);
}

inline Binary compiled(const Variant& variant, CudaCompiler& with = compiler()) {
  auto binary = with.compile(variant, macros_for(variant), 60.0);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
  return *binary;
}
inline CompileFailure failure_of(const Variant& variant, double deadline_s = 60.0) {
  const auto binary = compiler().compile(variant, macros_for(variant), deadline_s);
  BOOST_REQUIRE_MESSAGE(!binary, variant.manifest.name + " was not refused");
  return binary.error();
}

inline Cubin cubin_of(const Binary& binary, const std::vector<std::string>& order = {}) {
  const std::string bytes = text_of(binary.path);
  auto cubin = read_cubin(std::as_bytes(std::span(bytes)), order);
  BOOST_REQUIRE_MESSAGE(cubin, (cubin ? "" : cubin.error().message));
  return *std::move(cubin);
}

}  // namespace cultivar::cuda_test
