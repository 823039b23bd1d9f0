// SPDX-License-Identifier: Apache-2.0
#include "toy/device/toy_device.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <sstream>

#include "evaluators/devices/device.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar::toy {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDispatch = std::chrono::microseconds(5);  // what fetching an instruction takes this machine
constexpr float kPoison = 1.5e30F;

Facts facts_of_the_machine(int = 0) {
  return {{"lanes_max", 64}};
}

class ToySession : public Session {
 public:
  ToySession(std::vector<std::string> program, const PlannedKernel& kernel)
      : program_(std::move(program)),
        lanes_(static_cast<std::size_t>(kernel.launch.number("lanes", 1))),
        rows_(static_cast<std::size_t>(kernel.args.at(2).value)),
        columns_(static_cast<std::size_t>(kernel.args.at(3).value)),
        block_(lanes_ * columns_),
        scalars_(lanes_) {}

  tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions&) override {
    x_.resize(rows_ * columns_);
    std::memcpy(x_.data(), inputs[0].bytes.data(), inputs[0].bytes.size());
    y_.assign(rows_ * columns_, kPoison);
    const auto before = Clock::now();
    for (std::size_t row = 0; row < rows_; row += lanes_)
      for (const std::string& instruction : program_)
        execute(instruction, row, std::min(lanes_, rows_ - row));
    Sample sample;
    sample.seconds = std::chrono::duration<double>(Clock::now() - before).count();
    outputs[0].resize(y_.size() * sizeof(float));
    std::memcpy(outputs[0].data(), y_.data(), outputs[0].size());
    return sample;
  }
  std::size_t unwritten_elements() const override {
    return static_cast<std::size_t>(std::ranges::count(y_, kPoison));
  }

 private:
  void execute(const std::string& instruction, std::size_t row, std::size_t count) {
    for (const auto until = Clock::now() + kDispatch; Clock::now() < until;) {
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<double> v(block_.data() + i * columns_, columns_);
      double& s = scalars_[i];
      const auto at = static_cast<std::ptrdiff_t>((row + i) * columns_);
      if (instruction == "load") std::copy_n(x_.begin() + at, columns_, v.begin());
      if (instruction == "max") s = *std::ranges::max_element(v);
      if (instruction == "sum") s = std::accumulate(v.begin(), v.end(), 0.0);
      if (instruction == "sub") std::ranges::for_each(v, [&](double& x) { x -= s; });
      if (instruction == "exp") std::ranges::for_each(v, [](double& x) { x = std::exp(x); });
      if (instruction == "div") std::ranges::for_each(v, [&](double& x) { x /= s; });
      if (instruction == "store")
        std::ranges::transform(v, y_.begin() + at, [](double x) { return static_cast<float>(x); });
    }
  }

  std::vector<std::string> program_;
  std::size_t lanes_, rows_, columns_;
  std::vector<double> block_, scalars_;
  std::vector<float> x_, y_;
};

class ToyDevice : public Device {
 public:
  const Facts& facts() const override { return facts_; }
  DeviceInfo info() const override {
    return {"a toy of 64 lanes", "programs cannot reach beyond their rows", {}, facts_, {}, "toy"};
  }
  const Ceilings& ceilings() override { return ceilings_; }
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary& binary, const Plan& plan,
                                                               std::span<const Repetition>, double) override {
    const auto text = read_file(binary.path);
    if (!text) return tl::make_unexpected(Fault{Fault::Kind::load_failed, text.error().message});
    std::istringstream in(*text);
    std::vector<std::string> program;
    for (std::string word; in >> word;) program.push_back(word);
    return std::make_unique<ToySession>(std::move(program), plan.kernels.at(0));
  }

 private:
  Facts facts_ = facts_of_the_machine();
  Ceilings ceilings_{1e12, 1e12, 1e12, 0.0};
};

std::unique_ptr<Device> open_device(const std::filesystem::path&, int) {
  return std::make_unique<ToyDevice>();
}

}  // namespace

Target toy_device() {
  static const TargetTraits row{
      .name = "toy",
      .device = "toy",
      .dtypes = {Dtype::f32},
      .facts = {{"lanes_max", "rows that an instruction may work on"}},
      .launch_keys = {{.name = "lanes", .required = true, .most_fact = "lanes_max"}},
      .on_host = true,
      .stand_in_facts = facts_of_the_machine,
      .open = open_device};
  return &row;
}

}  // namespace cultivar::toy
