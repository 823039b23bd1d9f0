// SPDX-License-Identifier: Apache-2.0
#include "support/simulated_bench.hpp"

#include <algorithm>
#include <thread>

#include "support/places.hpp"

namespace cultivar::testing {
namespace {

bool says(const std::string& source, const char* words) {
  return source.find(words) != std::string::npos;
}

double speed_of(const Variant& variant) {
  const std::size_t at = variant.source.find("SPEED ");
  const double speed = at == std::string::npos ? 10.0 : std::stod(variant.source.substr(at + 6));
  if (!says(variant.source, "TILED")) return speed;
  return speed * static_cast<double>(std::get<std::int64_t>(variant.configuration.at("TILE")));
}

}  // namespace

std::string softmax_kernel(const std::string& words) {
  return "/*--- cultivar\n"
         "name: simulated\n"
         "task: softmax\n"
         "target: cpu\n"
         "requires: \"dtype == f32\"\n"
         "tunables:\n"
         "  TILE: {values: [1, 2, 4], default: 2}\n"
         "launch:\n"
         "  - kernel: softmax\n"
         "    threads: 1\n"
         "    args: [x, y, R, C]\n"
         "---*/\n"
         "// " +
         words +
         "\n"
         "extern \"C\" void softmax(const float* x, float* y, int R, int C) {\n"
         "  for (int i = 0; i < R * C; i += TILE) y[i] = x[i];\n"
         "}\n";
}

SimulatedBench::SimulatedBench() : task_(load_task(source_folder() / "configs/tasks/softmax")) {
  workloads_ = task_.workloads("cpu_quick")->workloads;
  notes_.push_back({"tiles", "Tiles that fit", "Make them smaller.", {"memory"}, {}, {}, {}, {}, {}, {}});
  for (const char* id : {"1", "2"}) {
    Kernel kernel;
    kernel.row.id = id;
    kernel.row.state = "measured";
    kernel.row.best = *id == '2';
    kernel.row.fitness = *id == '2' ? 20.0 : 10.0;
    kernel.row.op = *id == '2' ? "tune" : "seed";
    kernel.row.configuration = {{"TILE", std::int64_t{*id == '2' ? 4 : 2}}};
    kernel.source = softmax_kernel(*id == '2' ? "SPEED 20" : "SPEED 10");
    if (*id == '2') kernel.row.parents = {"1"};
    known.push_back(kernel);
  }
}

Expected<std::vector<KernelRow>> SimulatedBench::kernels(const KernelQuery&) const {
  std::vector<KernelRow> rows;
  for (const Kernel& kernel : known) rows.push_back(kernel.row);
  return rows;
}

Expected<Kernel> SimulatedBench::kernel(const std::string& id) const {
  for (const Kernel& kernel : known)
    if (kernel.row.id == id || (id == "best" && kernel.row.best)) return kernel;
  return failure("record", "this run has no individual '" + id + "'");
}

void SimulatedBench::work(const std::string& source, const Watch& watch) {
  const int now = ++measuring;
  int most = most_measuring;
  while (now > most && !most_measuring.compare_exchange_weak(most, now)) {
  }
  watch.tell("working");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(says(source, "sleeps") ? sleep_s : 0.002);
  while (std::chrono::steady_clock::now() < end && !watch.over())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --measuring;
}

tl::expected<Compiled, Evaluation> SimulatedBench::compile(const Variant& variant,
                                                           const std::vector<Workload>&, const Watch&) {
  if (says(variant.source, "does not compile"))
    return tl::make_unexpected(rejection(Stage::compile, "one error", "softmax.cpp:14: error: expected ';'"));
  Compiled compiled;
  compiled.variant = variant;
  Binary binary;
  binary.macros = {"TILE=2"};
  binary.resources.values["text_bytes"] = 640;
  binary.log = "warning: unused variable";
  compiled.binaries.push_back(binary);
  return compiled;
}

Expected<Evaluation> SimulatedBench::evaluate(const EvaluateRequest& request, const Watch& watch) {
  ++evaluations;
  most_samples = request.sampling.max_samples;
  most_seconds = request.sampling.max_seconds;
  until_clear = request.sampling.until_clear;
  const std::string& source = request.variant.variant.source;
  work(source, watch);
  if (watch.over()) return failure(ErrorKind::interrupted, "", "interrupted");
  if (says(source, "is wrong"))
    return rejection(Stage::sweep, "wrong output", "y[3, 17] is 0.5 and should be 0.25");
  Evaluation evaluation;
  evaluation.verdict = Evaluation::Verdict::measured;
  evaluation.stage = request.stop_after;
  if (request.stop_after < Stage::measure) return evaluation;
  evaluation.fitness = speed_of(request.variant.variant);
  evaluation.unit = unit();
  for (const Workload& workload : request.workloads) {
    WorkloadResult result;
    result.workload = workload.name;
    result.median_us = 1000.0 / evaluation.fitness;
    result.q1_us = result.median_us * 0.9;
    result.q3_us = result.median_us * 1.1;
    result.value = evaluation.fitness;
    result.unit = unit();
    for (const auto& [name, contender] : request.contenders) {
      const double ratio = evaluation.fitness / speed_of(contender.variant);
      result.ratios[name] = ratio;
      if (!says(source, "no intervals")) result.ratio_intervals[name] = {0.98 * ratio, 1.02 * ratio};
    }
    evaluation.workloads.push_back(std::move(result));
  }
  return evaluation;
}

Expected<ProfilePartial> SimulatedBench::profile(const ProfileRequest& request, const Watch& watch) {
  work(request.variant.variant.source, watch);
  ProfilePartial found;
  found.profile.target = "cpu";
  found.profile.name = request.variant.variant.manifest.name;
  found.profile.workload = request.workload.name;
  found.profile.median_us = 1000.0 / speed_of(request.variant.variant);
  return found;
}

Expected<std::string> SimulatedBench::submit(const Variant& variant, const std::string& note,
                                             const std::string& from) {
  submitted.push_back({variant.source, note, from});
  return "Submitted.";
}

}  // namespace cultivar::testing
