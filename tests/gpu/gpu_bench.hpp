// SPDX-License-Identifier: Apache-2.0
// Shared by the tests on a real GPU. A suite with `needs_a_gpu()` is skipped, with the reason, if there is no
// GPU.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/devices/cuda/run/device.hpp"
#include "evaluators/languages/cuda_cpp/compiler.hpp"
#include "evaluators/variant/variant.hpp"
#include "support/places.hpp"

namespace cultivar::gpu_test {

struct Opened {
  std::unique_ptr<Device> device;
  std::string why_not;
};

inline Opened& opened() {
  static Opened instance = [] {
    Opened result;
    try {
      result.device =
          open_cuda_device(0, testing::tests_cache(), testing::programs_folder() / "cultivar-nvrtc");
    } catch (const MissingError& e) {
      result.why_not = e.what();
    }
    return result;
  }();
  return instance;
}
inline Device& device() {
  return *opened().device;
}

inline boost::test_tools::assertion_result a_gpu_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(opened().device != nullptr);
  if (!opened().device) here.message() << opened().why_not;
  return here;
}
inline auto needs_a_gpu() {
  return boost::unit_test::precondition(a_gpu_is_here);
}

inline CudaCompiler& compiler() {
  static CudaCompiler instance([] {
    CudaCompilerOptions options;
    options.cache = testing::tests_cache();
    options.program = testing::programs_folder() / "cultivar-nvrtc";
    options.architecture = architecture_of(static_cast<int>(device().facts().at("compute_capability")));
    options.trusted = true;  // plans are handwritten here, without the arguments of a manifest
    return options;
  }());
  return instance;
}

using Use = PlannedBuffer::Use;

inline PlannedArgument buffer(int index) {
  PlannedArgument argument;
  argument.kind = PlannedArgument::Kind::buffer;
  argument.index = index;
  return argument;
}
inline PlannedArgument map(int index) {
  PlannedArgument argument;
  argument.kind = PlannedArgument::Kind::tensor_map;
  argument.index = index;
  return argument;
}
inline PlannedArgument scalar(Dtype type, double value) {
  PlannedArgument argument;
  argument.type = type;
  argument.value = value;
  return argument;
}
inline PlannedKernel kernel(std::string name, unsigned blocks, unsigned threads,
                            std::vector<PlannedArgument> args) {
  PlannedKernel result;
  result.kernel = std::move(name);
  result.launch.set("grid", {blocks, 1, 1});
  result.launch.set("block", {threads, 1, 1});
  result.args = std::move(args);
  return result;
}

// Compiles `source`, which contains a kernel `nothing` without arguments in addition to those of the plan.
inline tl::expected<std::unique_ptr<Session>, Fault> open(const std::string& source, const Plan& plan) {
  Variant variant;
  variant.source = source + "\nextern \"C\" __global__ void nothing() {}\n";
  variant.manifest.target = target_named("cuda");
  variant.manifest.launch.emplace_back().kernel = "nothing";
  const auto binary = compiler().compile(variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
  return device().open(*binary, plan, 20.0);
}
inline std::unique_ptr<Session> session(const std::string& source, const Plan& plan) {
  auto made = open(source, plan);
  BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().detail));
  return std::move(*made);
}

template <class T>
std::vector<T> values(const std::vector<std::byte>& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
  return result;
}
template <class T>
std::vector<std::byte> bytes(const std::vector<T>& elements) {
  std::vector<std::byte> result(elements.size() * sizeof(T));
  std::memcpy(result.data(), elements.data(), result.size());
  return result;
}
inline std::vector<std::uint32_t> counting(std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<std::uint32_t>(i * 2654435761u);
  return numbers;
}

using Outputs = std::vector<std::vector<std::byte>>;
inline std::string words(const tl::expected<Sample, Fault>& ran) {
  return ran ? ran->disturbance : std::string(name_of(ran.error().kind)) + ": " + ran.error().detail;
}

}  // namespace cultivar::gpu_test
