// SPDX-License-Identifier: Apache-2.0
// Measures what judging costs the host: the judge's own work by stage, with a device on which every run gives
// the right result at once. No GPU is needed. bench-judging-cost TASK_FOLDER WORKLOAD_SET
// [search|confirm] [CACHE]
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "evaluators/check/oracle.hpp"
#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/judge/cascade.hpp"
#include "evaluators/judge/drawn_checks.hpp"
#include "evaluators/task/task.hpp"

using namespace cultivar;

namespace {

struct Spent {
  double wall = 0.0, cpu = 0.0;
  Spent& operator+=(const Spent& other) {
    wall += other.wall, cpu += other.cpu;
    return *this;
  }
  friend Spent operator-(const Spent& a, const Spent& b) { return {a.wall - b.wall, a.cpu - b.cpu}; }
};

Spent now() {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
          seconds(used.ru_utime) + seconds(used.ru_stime)};
}

// What belongs to no judge: the device's part.
Spent of_device;

// Computes what the oracle computes, in the output's type: of timed runs only the elements that are wanted.
class RightSession : public Session {
 public:
  RightSession(const Task& task, const TaskReference& library, Workload workload, int threads)
      : task_(task),
        workload_(std::move(workload)),
        library_(library),
        layout_(task, workload_),
        oracle_(library, task, workload_, threads) {}

  tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions& options) override {
    const Spent begun = now();
    std::vector<const double*> values;
    std::vector<const std::byte*> stored;
    std::size_t next = 0;
    for (const TensorSpec& tensor : task_.tensors) {
      if (tensor.role != Role::input) continue;
      const RunInput& input = inputs[next];
      const Dtype dtype = task_.dtype(tensor, workload_);
      if (decoded_.size() == next) decoded_.emplace_back();
      Decoded& decoded = decoded_[next++];
      const std::span<const std::byte> whole = input.stretch != 0 ? input.whole : input.bytes;
      if (input.stretch == 0 || input.stretch != decoded.stretch) {
        decoded.values.resize(whole.size() / size_of(dtype));
        decoded.stretch = input.stretch;
        decode(dtype, whole, decoded.values);
      }
      values.push_back(decoded.values.data() +
                       (input.bytes.data() - whole.data()) / static_cast<std::ptrdiff_t>(size_of(dtype)));
      stored.push_back(input.bytes.data());
    }
    const std::vector<std::int64_t> rows = wanted_rows(options);
    constexpr std::size_t kSome = 64;
    for (std::size_t first = 0; first < rows.size(); first += kSome)
      put(std::span(rows).subspan(first, std::min(kSome, rows.size() - first)), {values, stored}, outputs);
    of_device += now() - begun;
    Sample sample;
    sample.seconds = 1e-3 * task_.bytes(workload_) / 1e9;
    return sample;
  }
  std::size_t unwritten_elements() const override { return 0; }

 private:
  std::vector<std::int64_t> wanted_rows(const RunOptions& options) const {
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < layout_.rows(); ++row) rows.push_back(row);
    if (options.wanted.empty()) return rows;
    std::erase_if(rows, [&](std::int64_t row) {
      for (std::size_t t = 0; t < layout_.outputs().size(); ++t) {
        const OutputLayout& output = layout_.outputs()[t];
        const RowGroup& group = layout_.group(output);
        if (row < group.first || row >= group.first + group.rows) continue;
        const std::vector<ElementRange>& wanted = options.wanted[t];
        return !wanted.empty() &&
               !std::ranges::binary_search(wanted, layout_.base(output, row), {}, &ElementRange::first);
      }
      return true;
    });
    return rows;
  }

  void put(std::span<const std::int64_t> rows, const InputView& inputs,
           std::span<std::vector<std::byte>> outputs) const {
    const std::vector<double> exact = oracle_.rows(library_.exact(), inputs, rows);
    for (std::size_t t = 0; t < layout_.outputs().size(); ++t) {
      const OutputLayout& output = layout_.outputs()[t];
      const RowSpan span = layout_.span_of(output, rows);
      const auto width = static_cast<std::size_t>(layout_.group(output).elements),
                 bytes = size_of(output.dtype);
      for (std::size_t i = span.first; i < span.last; ++i)
        for (std::size_t e = 0; e < output.element_offsets.size(); ++e)
          encode(
              output.dtype,
              std::span(exact).subspan(span.value + (i - span.first) * width + output.first_element + e, 1),
              std::span(outputs[t])
                  .subspan(
                      static_cast<std::size_t>(layout_.base(output, rows[i]) + output.element_offsets[e]) *
                          bytes,
                      bytes));
    }
  }

  struct Decoded {
    std::uint64_t stretch = 0;
    std::vector<double> values;
  };
  std::vector<Decoded> decoded_;
  const Task& task_;
  const Workload workload_;
  const TaskReference& library_;
  const RowLayout layout_;
  const Oracle oracle_;
};

constexpr int kCores = 2;

// As a GPU: it keeps stretches. Its kernels are told their shape by their arguments.
class RightDevice : public Device {
 public:
  RightDevice(const Task& task, const TaskReference& library) : task_(task), library_(library) {
    facts_["num_cores"] = kCores;
  }
  const Facts& facts() const override { return facts_; }
  DeviceInfo info() const override { return {"always right", "none", {}, facts_, {}, "none"}; }
  const Ceilings& ceilings() override { return ceilings_; }
  bool keeps_stretches() const override { return true; }
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary& binary, const Plan& plan,
                                                               std::span<const Repetition>, double) override {
    Dtype dtype = Dtype::f32;
    for (const std::string& macro : binary.macros)
      if (macro == "DTYPE_BF16=1")
        dtype = Dtype::bf16;
      else if (macro == "DTYPE_F16=1")
        dtype = Dtype::f16;
    Bindings given;
    std::size_t next = 0;
    for (const Dimension& d : task_.dimensions) given[d.name] = plan.kernels[0].args[next++].value;
    for (const Parameter& p : task_.parameters) given[p.name] = plan.kernels[0].args[next++].value;
    auto workload = make_workload(task_, given, dtype, true);
    if (!workload) throw std::logic_error(workload.error().message);
    return std::make_unique<RightSession>(task_, library_, std::move(*workload), kCores);
  }

 private:
  const Task& task_;
  const TaskReference& library_;
  Facts facts_ = known_device("h200")->facts;
  Ceilings ceilings_{1e18, 1e18, 1e18, 0.0};
};

std::string source_for(const Task& task) {
  std::string args;
  for (const Dimension& d : task.dimensions) args += (args.empty() ? "" : ", ") + d.name;
  for (const Parameter& p : task.parameters) args += ", " + p.name;
  for (const TensorSpec& tensor : task.tensors) args += ", " + tensor.name;
  return fmt::format(
      "/*--- cultivar\nname: right\ntask: {}\ntarget: cuda\nspecialize: [dtype]\nlaunch:\n  - kernel: right\n"
      "    grid: [1, 1, 1]\n    block: [32, 1, 1]\n    args: [{}]\n---*/\nextern \"C\" __global__ void "
      "right();\n",
      task.name, args);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench-judging-cost TASK_FOLDER WORKLOAD_SET [search|confirm] [CACHE]\n");
    return 2;
  }
  const Task task = load_task(argv[1]);
  const WorkloadSet* set = task.workloads(argv[2]);
  if (set == nullptr) throw InputError(fmt::format("{} has no workload set {}", task.name, argv[2]));
  const bool confirming = argc > 3 && std::string_view(argv[3]) == "confirm";
  const std::filesystem::path cache = argc > 4
                                          ? std::filesystem::path(argv[4])
                                          : std::filesystem::temp_directory_path() / "cultivar-judging-cost";
  const auto library = open_reference(task, cache);
  if (!library) throw InputError(library.error().message);
  RightDevice device(task, *library);

  EvaluateRequest request;
  const auto variant = make_variant(source_for(task), task);
  if (!variant) throw InputError(variant.error().message);
  request.variant.variant = *variant;
  for (const auto& assignment : macro_assignments(task, *variant, set->workloads,
                                                  confirming ? Breadth::confirming : Breadth::searching))
    request.variant.binaries.push_back({"/", "right", assignment, {}, {}});
  request.workloads = set->workloads;
  request.sampling.screening_seconds = 1e9;
  if (confirming) {
    request.stop_after = Stage::confirm;
    request.exactness = true;
  }
  std::vector<std::pair<std::string, Spent>> costs;
  Spent before = now();
  std::string part = "start";
  const auto to_next = [&](const std::string& text) {
    const Spent after = now();
    const Spent taken = after - before - of_device;
    if (costs.empty() || costs.back().first != part) costs.emplace_back(part, Spent{});
    costs.back().second += taken;
    of_device = {};
    before = now();
    part = text;
  };
  CascadeSite site{.device = device, .task = task, .oracle = *library};
  site.progress = [&](const Activity& at) {
    const bool small =
        at.stage != Stage::measure && at.stage != Stage::confirm && !at.text.starts_with("drawn");
    const std::string text = small ? std::string(name_of(at.stage.value_or(Stage::smoke))) : at.text;
    if (text != part) to_next(text);
  };
  // A worker's first evaluation also gets its memory from the system, so the second one is reported.
  site.stock = std::make_shared<TimingStock>();
  run_cascade(site, request);
  costs.clear();
  to_next("start");
  costs.clear();
  const Spent begun = now();
  const Evaluation evaluation = run_cascade(site, request);
  const Spent all = now() - begun;
  to_next("end");
  Spent total;
  for (const auto& [text, cost] : costs) {
    fmt::print("{:8.2f} s {:8.2f} s of cores  {}\n", cost.wall, cost.cpu, text);
    total += cost;
  }
  fmt::print(
      "{:8.2f} s {:8.2f} s of cores  in all, on {} cores (with the device's part {:.2f} s, {:.2f} s)\n",
      total.wall, total.cpu, kCores, all.wall, all.cpu);
  std::size_t samples = 0;
  for (const WorkloadResult& w : evaluation.workloads) samples += w.samples.size();
  fmt::print("{} at {}, {} timed runs{}\n", evaluation.measured() ? "measured" : "rejected",
             name_of(evaluation.stage), samples,
             evaluation.measured() ? "" : ": " + evaluation.reason + "\n" + evaluation.diagnostics);
  return evaluation.measured() ? 0 : 1;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
