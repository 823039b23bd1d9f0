// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the cpu target: a compiler whose cache outlives them, plans of the softmax task for
// real kernels under tests/kernels, and handwritten plans for kernels in the tests.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "evaluators/devices/cpu/device.hpp"
#include "evaluators/languages/cpp/compiler.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar::cpu_test {

inline const std::filesystem::path source_folder = CULTIVAR_SOURCE_DIR;
inline const std::filesystem::path cache_folder = std::filesystem::path(CULTIVAR_BIN_DIR) / "../cache/tests";

inline CpuCompiler& compiler() {
  static CpuCompiler instance({.cache = cache_folder});
  return instance;
}
inline CpuDevice& device() {
  static CpuDevice instance(
      {.cache = cache_folder, .cell = std::filesystem::path(CULTIVAR_BIN_DIR) / "cultivar-cell"});
  return instance;
}
inline const Task& softmax() {
  static const Task task = load_task(source_folder / "configs/tasks/softmax");
  return task;
}

// A source without a manifest; the test writes its plan.
inline Variant by_hand(std::string source, std::vector<std::string> kernels) {
  Variant variant;
  variant.source = std::move(source);
  for (auto& kernel : kernels) {
    variant.manifest.launch.emplace_back();
    variant.manifest.launch.back().kernel = std::move(kernel);
  }
  return variant;
}

inline PlannedArgument buffer(int index) {
  PlannedArgument argument;
  argument.kind = PlannedArgument::Kind::buffer;
  argument.index = index;
  return argument;
}
inline PlannedArgument scalar(Dtype type, double value) {
  PlannedArgument argument;
  argument.type = type;
  argument.value = value;
  return argument;
}
inline PlannedArgument special(PlannedArgument::Kind kind) {
  PlannedArgument argument;
  argument.kind = kind;
  return argument;
}
inline PlannedKernel kernel(std::string name, int threads, std::vector<PlannedArgument> args) {
  PlannedKernel result;
  result.kernel = std::move(name);
  result.launch.set("threads", {threads});
  result.args = std::move(args);
  return result;
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

inline Binary compiled(const Variant& variant, CpuCompiler& with = compiler()) {
  auto binary = with.compile(variant, {}, 60.0);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
  return *binary;
}

// One softmax variant on rows x columns of inputs that differ in every run.
class SoftmaxRun {
 public:
  SoftmaxRun(const std::filesystem::path& file, int rows, int columns) : rows_(rows), columns_(columns) {
    const Variant variant = load_variant(source_folder / "tests/kernels" / file, softmax());
    Workload workload;
    workload.values = {{"R", rows}, {"C", columns}};
    const auto plan = make_plan(variant, softmax(), workload, device().facts());
    BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
    auto opened = device().open(compiled(variant), *plan, 20.0);
    BOOST_REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().detail));
    session_ = std::move(*opened);
  }

  tl::expected<Sample, Fault> run(RunOptions options = {}) {
    const std::size_t count = static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_);
    std::vector<float> x(count);
    for (float& value : x)
      value = static_cast<float>((state_ = state_ * 6364136223846793005U + 1442695040888963407U) >> 40) *
              0x1p-22f;
    input_[0] = bytes(x);
    options.poison_seed = state_;
    return session_->run(input_, output_, options);
  }

  // The largest relative error of the last run's output, computed in double precision.
  double error() const {
    const auto x = values<float>(input_[0]), y = values<float>(output_[0]);
    double worst = 0.0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows_); ++r) {
      const std::size_t from = r * static_cast<std::size_t>(columns_),
                        to = from + static_cast<std::size_t>(columns_);
      double sum = 0.0;
      for (std::size_t i = from; i < to; ++i) sum += std::exp(static_cast<double>(x[i]));
      for (std::size_t i = from; i < to; ++i) {
        const double right = std::exp(static_cast<double>(x[i])) / sum, off = std::abs(y[i] - right) / right;
        worst = std::isfinite(off) ? std::max(worst, off) : 1e30;
      }
    }
    return worst;
  }
  Session& session() { return *session_; }

 private:
  int rows_, columns_;
  std::uint64_t state_ = 42;
  std::unique_ptr<Session> session_;
  std::vector<std::vector<std::byte>> input_{1}, output_{1};
};

}  // namespace cultivar::cpu_test
