// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the opencl target: a compiler whose cache outlives them, a device, and the kernels
// below tests/kernels/opencl, which are variants of softmax. A suite with `needs_opencl()` is skipped where
// OpenCL has no device, or the build has no OpenCL.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/devices/opencl/device.hpp"
#include "evaluators/languages/opencl_c/compiler.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar::opencl_test {

namespace fs = std::filesystem;

inline const fs::path source_folder = CULTIVAR_SOURCE_DIR;
inline const fs::path program = fs::path(CULTIVAR_BIN_DIR) / "cultivar-opencl";
inline const fs::path cache_folder = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";

inline const Task& softmax() {
  static const Task task = load_task(source_folder / "configs/tasks/softmax");
  return task;
}

// The device, or why there is none.
inline const Expected<std::unique_ptr<OpenclDevice>>& found_device() {
  static const Expected<std::unique_ptr<OpenclDevice>> found =
      []() -> Expected<std::unique_ptr<OpenclDevice>> {
    try {
      return std::make_unique<OpenclDevice>(OpenclDeviceOptions{cache_folder, program});
    } catch (const MissingError& missing) {
      return failure(ErrorKind::missing, "", missing.what());
    }
  }();
  return found;
}
inline OpenclDevice& device() {
  return **found_device();
}
inline boost::test_tools::assertion_result opencl_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(found_device().has_value());
  if (!found_device()) here.message() << found_device().error().message;
  return here;
}
inline auto needs_opencl() {
  return boost::unit_test::precondition(opencl_is_here);
}

inline OpenclCompiler& compiler() {
  static OpenclCompiler instance({cache_folder / "opencl", program}, softmax());
  return instance;
}

inline Variant kernel(const std::string& file) {
  return load_variant(source_folder / "tests/kernels/opencl" / file, softmax());
}
inline tl::expected<Binary, CompileFailure> compile(const Variant& variant) {
  return compiler().compile(variant, {}, 120.0);
}

// One variant of softmax on rows x columns of inputs that differ in every run.
class SoftmaxRun {
 public:
  SoftmaxRun(Device& on, const std::string& file, int rows, int columns, double deadline_s = 60.0)
      : rows_(rows), columns_(columns) {
    const Variant variant = kernel(file);
    const auto binary = compile(variant);
    BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
    Workload workload;
    workload.values = {{"R", rows}, {"C", columns}};
    const auto plan = make_plan(variant, softmax(), workload, on.facts());
    BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
    auto opened = on.open(*binary, *plan, deadline_s);
    if (opened)
      session_ = std::move(*opened);
    else
      refused = opened.error();
  }

  tl::expected<Sample, Fault> run(RunOptions options = {}) {
    if (refused) return tl::make_unexpected(*refused);
    std::vector<float> x(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_));
    for (float& value : x)
      value = static_cast<float>((state_ = state_ * 6364136223846793005U + 1442695040888963407U) >> 40) *
              0x1p-22f;
    input_[0].resize(x.size() * sizeof(float));
    std::memcpy(input_[0].data(), x.data(), input_[0].size());
    options.poison_seed = state_;
    return session_->run(input_, output_, options);
  }
  // The largest relative error of the last run's output.
  double error() const {
    const auto* const x = reinterpret_cast<const float*>(input_[0].data());
    const auto* const y = reinterpret_cast<const float*>(output_[0].data());
    double worst = 0.0;
    for (int r = 0; r < rows_; ++r) {
      double sum = 0.0;
      for (int i = r * columns_; i < (r + 1) * columns_; ++i) sum += std::exp(static_cast<double>(x[i]));
      for (int i = r * columns_; i < (r + 1) * columns_; ++i) {
        const double right = std::exp(static_cast<double>(x[i])) / sum, off = std::abs(y[i] - right) / right;
        worst = std::isfinite(off) ? std::max(worst, off) : 1e30;
      }
    }
    return worst;
  }
  Session& session() { return *session_; }

  std::optional<Fault> refused;  // why the session was not opened

 private:
  int rows_, columns_;
  std::uint64_t state_ = 42;
  std::unique_ptr<Session> session_;
  std::vector<std::vector<std::byte>> input_{1}, output_{1};
};

}  // namespace cultivar::opencl_test
