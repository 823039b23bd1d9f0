// SPDX-License-Identifier: Apache-2.0
#include "support/simulated_evaluator.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <chrono>
#include <cmath>
#include <fstream>

#include "engine/search/search.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar::testing {

namespace fs = std::filesystem;

namespace {

std::int64_t number(const Variant& variant, const char* knob) {
  const auto place = variant.configuration.find(knob);
  return place == variant.configuration.end() ? 0 : std::get<std::int64_t>(place->second);
}

std::string word(const Variant& variant, const char* knob) {
  const auto place = variant.configuration.find(knob);
  return place == variant.configuration.end() ? "" : std::get<std::string>(place->second);
}

}  // namespace

double true_fitness(const Variant& variant) {
  for (const char* knob : {"BLOCK", "UNROLL", "THREADS"})
    if (number(variant, knob) == 0) return 1.0;  // another kernel
  const double block = std::log2(static_cast<double>(number(variant, "BLOCK"))) - 6.5;
  const double unroll = std::log2(static_cast<double>(number(variant, "UNROLL"))) - 2.0;
  const auto named = [&](const char* part) { return variant.manifest.name.find(part) != std::string::npos; };
  const double scale = named("fastest") ? 1.6 : named("fast") ? 1.5 : 1.0;
  return scale * 10.0 * std::exp(-0.08 * block * block - 0.15 * unroll * unroll) *
         (word(variant, "LAYOUT") == "packed" ? 1.2 : 1.0) *
         (1.0 + 0.1 * std::log2(static_cast<double>(number(variant, "THREADS"))));
}

void SimulatedEvaluator::sleep(double seconds) const {
  if (!(seconds > 0.0)) return;
  std::unique_lock lock(sleeping_);
  interruption_.wait_for(lock, std::chrono::duration<double>(seconds),
                         [this] { return interrupted_.load(); });
}

void SimulatedEvaluator::interrupt() {
  {
    const std::lock_guard lock(sleeping_);
    interrupted_ = true;
  }
  interruption_.notify_all();
}

Expected<std::vector<DeviceInfo>> SimulatedEvaluator::devices() {
  if (simulation_.start)
    if (auto started = simulation_.start(while_starting_); !started)
      return tl::make_unexpected(started.error());
  DeviceInfo info;
  info.description = "simulated device";
  info.isolation = "nothing is run";
  info.facts = simulation_.facts;
  info.ceilings = simulation_.ceilings;
  return std::vector<DeviceInfo>{info};
}

tl::expected<Compiled, Evaluation> SimulatedEvaluator::compile(const Variant& variant,
                                                               const std::vector<Workload>&,
                                                               Breadth breadth) {
  sleep(simulation_.compile_s);
  if (interrupted_) return tl::make_unexpected(rejection(Stage::compile, "interrupted", ""));
  if (const auto fault = simulation_.compile_fault ? simulation_.compile_fault(variant) : std::nullopt)
    return tl::make_unexpected(host_rejection(Stage::compile, *fault, "planted"));
  if (number(variant, "UNROLL") == 16)
    return tl::make_unexpected(rejection(Stage::compile, "error: too much unrolling", "line 3: error"));
  if (simulation_.narrow && (breadth == Breadth::everything || breadth == Breadth::confirming) &&
      number(variant, "UNROLL") == 4)
    return tl::make_unexpected(rejection(Stage::screen, "spills where D is 256", ""));
  Compiled compiled;
  compiled.variant = variant;
  Binary binary;
  Configuration used = variant.configuration;
  used.erase("UNUSED");
  std::string code = variant.manifest.name;
  for (const auto& [name, value] : used) code += " " + name + "=" + to_string(value);
  binary.machine_code = sha256_hex(code);
  compiled.binaries.push_back(std::move(binary));
  return compiled;
}

Expected<Evaluation> SimulatedEvaluator::evaluate(int device, const EvaluateRequest& request,
                                                  const Note& note) {
  if (simulation_.has_no_worker && simulation_.has_no_worker(device))
    return failure("worker measure", "the device does not answer");
  const Variant& variant = request.variant.variant;
  if (simulation_.on_evaluate) simulation_.on_evaluate(variant);
  if (simulation_.evaluate_instead) return simulation_.evaluate_instead(variant);
  if (simulation_.is_late && simulation_.is_late(variant, request.stop_after)) {
    Evaluation late = rejection(Stage::smoke, "timed out on tiny", "");
    late.late = true;
    return late;
  }
  if (const auto fault =
          simulation_.host_fault ? simulation_.host_fault(variant, request.stop_after) : std::nullopt)
    return host_rejection(Stage::smoke, *fault, "planted");
  note("measuring");
  sleep(simulation_.evaluate_s);
  if (interrupted_) return failure(ErrorKind::interrupted, "", "interrupted");
  if (number(variant, "BLOCK") == 96) {
    Evaluation crash = rejection(Stage::smoke, "crashed: segmentation fault", "signal 11");
    crash.worker_lost = true;
    return crash;
  }
  const bool confirming = request.stop_after == Stage::confirm;
  if (confirming) sleep(simulation_.confirm_s);
  if (confirming && simulation_.refuse_confirmation)
    return rejection(Stage::confirm, "wrong on holdout shapes", "");
  RandomStream stream = stream_of(1, variant.id, confirming ? 1 : 0);
  Evaluation evaluation;
  evaluation.verdict = Evaluation::Verdict::measured;
  evaluation.stage = request.stop_after;
  evaluation.unit = "GB/s";
  const int hot = evaluations_++ - simulation_.cool;
  const bool shared = simulation_.load > 1.0;
  const double pace = (hot < 0 || hot >= simulation_.hot ? 1.0 : simulation_.pace) *
                      (shared ? std::pow(simulation_.load, -uniform(stream)) : 1.0);
  evaluation.fitness = pace * (simulation_.seems ? simulation_.seems(variant) : true_fitness(variant)) *
                       (1.0 + simulation_.noise * (2.0 * uniform(stream) - 1.0));
  if (const double error = simulation_.error_of ? simulation_.error_of(variant) : 0.0;
      request.exactness && error > 0.0)
    evaluation.exactness = {{"ordinary", {1.0, 1.0}, 1.0}, {"peaked", {error, 2.0 * error}, error}};
  for (const Workload& workload : request.workloads) {
    WorkloadResult result;
    result.workload = workload.name;
    for (int i = 0; i < simulation_.samples; ++i)
      result.samples.emplace_back().seconds = 1e-3 / evaluation.fitness * (1.0 + 0.01 * uniform(stream));
    result.median_us = 1e3 / evaluation.fitness;
    const double off = simulation_.spread_of ? simulation_.spread_of(variant) / 2.0 : 0.01;
    result.q1_us = result.median_us * (1.0 - off);
    result.q3_us = result.median_us * (1.0 + off);
    result.value = evaluation.fitness;
    result.unit = evaluation.unit;
    for (const auto& [name, contender] : request.contenders) result.ratios[name] = evaluation.fitness / 5.0;
    if (request.incumbent && (shared || confirming))
      result.incumbent_us = 1e3 / (pace * true_fitness(request.incumbent->variant));
    evaluation.workloads.push_back(std::move(result));
  }
  return evaluation;
}

Expected<GateReport> SimulatedEvaluator::gate(int device, const GateRequest& request, const Note& note) {
  if (simulation_.has_no_worker && simulation_.has_no_worker(device))
    return failure("worker measure", "the device does not answer");
  if (const auto fault = simulation_.host_fault
                             ? simulation_.host_fault(request.challenger.variant, Stage::gate)
                             : std::nullopt) {
    GateReport report;
    report.decision.reason = "planted";
    report.host_fault = fault;
    return report;
  }
  note("comparing");
  sleep(simulation_.gate_s);
  if (interrupted_) return failure(ErrorKind::interrupted, "", "interrupted");
  std::vector<std::string> names;
  for (const Workload& workload : request.workloads) names.push_back(workload.name);
  Gate gate(names, request.options, request.seed);
  RandomStream stream = stream_of(2, request.challenger.variant.id, request.seed);
  const double speeds[3] = {true_fitness(request.challenger.variant), true_fitness(request.incumbent.variant),
                            true_fitness(request.control.variant)};
  DuelTimes times = request.earlier;
  for (const DuelTimes::Block& block : times.blocks) gate.add(block.seconds, block.device_seconds);
  for (std::size_t i = 0; i < times.blocks.size(); ++i) (void)uniform(stream);  // other noise
  const auto enough = [&] { return request.enough && *request.enough; };
  while (!gate.done() && !enough()) {
    std::vector<double> seconds;
    for (const Slot& slot : gate.next_order())
      seconds.push_back(1e-3 / speeds[static_cast<int>(slot.side)] *
                        std::exp((simulation_.noise + simulation_.gate_noise) *
                                 (uniform(stream) + uniform(stream) + uniform(stream) - 1.5)));
    gate.add(seconds, 0.01);
    times.blocks.push_back({seconds, 0.01});
    if (simulation_.on_block) simulation_.on_block(request, static_cast<int>(times.blocks.size()));
  }
  GateReport report;
  report.decision = gate.decision();
  if (gate.may_go_on() || !gate.done()) report.times = std::move(times);
  return report;
}

std::string softmax_source(const std::string& name) {
  return fmt::format(R"(/*--- cultivar
name: {}
task: softmax
target: cpu
requires: "dtype == f32"
tunables:
  BLOCK: {{values: [16, 32, 48, 64, 96, 128, 192, 256], default: 16}}
  UNROLL: {{values: [1, 2, 4, 8, 16], default: 1}}
  THREADS: {{values: [1, 2, 4, 8], default: 1}}
  LAYOUT: {{values: [plain, packed], default: plain}}
  UNUSED: {{values: [0, 1], default: 0}}
constraints: ["BLOCK * UNROLL <= 2048"]
launch:
  - kernel: softmax
    threads: THREADS
    args: [x, y, R, C, thread, threads]
---*/
extern "C" void softmax(const float*, float*, int, int, int, int) {{}}
)",
                     name);
}

Expected<ProfilePartial> SimulatedEvaluator::profile(int, const ProfileRequest& request, const Note&) {
  if (simulation_.profile_instead) return simulation_.profile_instead(request.variant.variant);
  ProfilePartial made;
  Profile& p = made.profile;
  p.target = "cpu";
  p.variant = request.variant.variant.id;
  p.name = request.variant.variant.manifest.name;
  p.workload = request.workload.name;
  p.set = request.full ? "full" : "quick";
  p.median_us = 1e3 / true_fitness(request.variant.variant);
  p.value = true_fitness(request.variant.variant);
  p.unit = "GFLOPS";
  p.flops_us = 0.5 * p.median_us;
  return made;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = (fs::temp_directory_path() / "cultivar-test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Config softmax_config(const fs::path& folder, const std::vector<std::string>& overrides) {
  fs::create_directories(folder);
  std::ofstream(folder / "plain.cpp") << softmax_source("softmax_plain");
  std::ofstream(folder / "fast.cpp") << softmax_source("softmax_fast");
  std::ofstream(folder / "search.yaml") << "name: simulated\n"
                                           "task: softmax\n"
                                           "workloads: cpu_quick\n"
                                           "holdout: cpu_holdout\n"
                                           "seeds: [plain.cpp, fast.cpp]\n"
                                           "budget: {evaluations: 60}\n"
                                           "seed: 7\n";
  return load_config(folder / "search.yaml", overrides,
                     {fs::path(CULTIVAR_SOURCE_DIR) / "configs" / "tasks"});
}

}  // namespace cultivar::testing
