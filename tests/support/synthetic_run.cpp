// SPDX-License-Identifier: Apache-2.0
#include "support/synthetic_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "engine/store/askings.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/interventions.hpp"
#include "engine/store/record_writer.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar::testing {

namespace {

using nlohmann::json;

template <class T>
T must_have(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

constexpr const char* kManifest =
    "/*--- cultivar\nname: attention_{0}\ntask: attention_forward\ntarget: cuda\nabout: \"Variant {0} of the "
    "synthetic run.\"\n"
    "tunables:\n  BLOCK_M: {{values: [64, 128, 256], default: 128}}\n  STAGES: {{values: [2, 3, 4], default: "
    "3}}\n"
    "launch:\n  - kernel: attend\n    grid: [ceil(Sq / BLOCK_M), B * H]\n---*/\n";

class Writer {
 public:
  Writer(const std::filesystem::path& folder, const SyntheticRun& run)
      : run_(run), folder_(folder), writer_(must_have(RecordWriter::create(folder_, facts()))) {
    exchanges_ = must_have(ExchangeStore::open(folder_, writer_));
  }

  void write() {
    step([&](Step& s) {
      s.set("unit", "TFLOPS");
      s.set("budget",
            json{{"wall", 36000}, {"evaluations", run_.individuals + run_.until}, {"usd", 25.0}}.dump());
      s.session("started");
      s.event("session", 0, "started with 2 devices");
    });
    for (IndividualId from = 1; from <= run_.individuals; from += run_.at_once) {
      const IndividualId to = std::min(run_.individuals, from + run_.at_once - 1);
      step([&](Step& s) {
        for (IndividualId id = from; id <= to; ++id) individual(s, id);
      });
      if (run_.goes_on && !run_.goes_on(to)) return;
    }
    for (IndividualId id = run_.individuals + 1; id <= run_.until; ++id) {
      step([&](Step& s) { individual(s, id); });
      if (run_.goes_on && !run_.goes_on(id)) return;
    }
    step([&](Step& s) {
      for (std::int64_t more = 0; more < run_.pending; ++more)
        individual(s, static_cast<IndividualId>(sources_.size()) + 1, false);
      s.set("state", "finished");
      s.set("stop_reason", "the evaluation budget is exhausted");
      s.event("stop", 0, "the evaluation budget is exhausted");
    });
  }

 private:
  RunFacts facts() const {
    RunFacts facts;
    facts.name = run_.hostile ? run_.name + kAttack : run_.name;
    facts.config_yaml =
        fmt::format("name: synthetic\ntarget: cuda\nrules: 9\npopulation: {}\n",
                    run_.cells ? "{strategy: map_elites, axes: [STAGES, registers, block_shared_bytes]}"
                               : "{islands: 4}");
    facts.task_name = "attention_forward";
    facts.target = "cuda";
    facts.task_files = {{"task.yaml", "name: attention_forward\n"}};
    facts.environment = {{"compiler", "nvrtc 13.0"},
                         {"devices",
                          {{{"description", "NVIDIA H100 SXM, 132 multiprocessors, 1980 MHz"},
                            {"facts", {{"num_sms", 132.0}}}},
                           {{"description", "NVIDIA H100 SXM, 132 multiprocessors, 1980 MHz"},
                            {"facts", {{"num_sms", 132.0}}}}}}};
    facts.workloads = {"B4_H16_S4096_D128_bf16", "B4_H16_S4096_D128_causal_bf16",
                       "B1_H32_S16384_D128_causal_bf16"};
    return facts;
  }

  template <class Write>
  void step(const Write& write) {
    if (auto done = writer_.step(now_, write); !done) throw std::runtime_error(done.error().message);
  }

  double any(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }
  bool one_in(double many) { return any(0.0, many) < 1.0; }

  std::string source_of(IndividualId id) const {
    std::string text = fmt::format(fmt::runtime(kManifest), id);
    text +=
        "#include <cuda_bf16.h>\n\n// Online softmax; one warpgroup loads, two compute.\n__global__ void "
        "__launch_bounds__(384) attend(const "
        "__nv_bfloat16* __restrict__ q, float scale) {\n";
    for (int i = 0; i < 40; ++i)
      text += fmt::format("  float part{} = {}.0f * scale;  // step {}\n", i, i == id % 40 ? id : i, i);
    text += "  const char* words = \"not /* a comment */ \\\" here\";\n}\n";
    if (run_.hostile && id % 5 == 0) text += std::string("// ") + kAttack + "\n// \x1b[2J \u202e reversed\n";
    return text;
  }

  Evaluation measured(IndividualId id, double fitness, bool confirmed) {
    Evaluation e;
    e.verdict = Evaluation::Verdict::measured;
    e.stage = confirmed ? Stage::confirm : Stage::measure;
    e.fitness = fitness;
    e.unit = "TFLOPS";
    e.resources.values = {
        {"registers", 168.0 + static_cast<double>(id % 7)}, {"shared_bytes", 196608.0}, {"spill_bytes", 0.0}};
    e.resources.shares = {{"tensor", 31.0}, {"memory", 22.0}};
    e.compile_seconds = 1.2;
    e.check_seconds = 0.8;
    e.measure_seconds = 1.1;
    e.checked = Checked{};
    e.checked->runs = 412, e.checked->shapes = 97, e.checked->specialisations = 2;
    e.checked->ranges = {{"Sq", {1.0, 16384.0}}, {"D", {128.0, 128.0}}};
    const std::vector<std::string> workloads = facts().workloads;
    for (std::size_t i = 0; i < workloads.size(); ++i) {
      WorkloadResult w;
      w.workload = workloads[i];
      w.value = fitness * (0.9 + 0.1 * static_cast<double>(i));
      w.unit = e.unit;
      w.median_us = 1e6 / w.value, w.q1_us = 0.995 * w.median_us, w.q3_us = 1.006 * w.median_us;
      for (int k = 0; k < 9; ++k)
        w.samples.push_back({1e-6 * w.median_us * any(0.99, 1.01), 1755.0 + 30.0 * std::sin(1e-3 * now_),
                             58.0 + 6.0 * std::sin(7e-4 * now_), 640.0, 0});
      if (confirmed) {
        w.ratios = {{"cudnn", fitness / 620.0}, {"flash_attention_3", fitness / 655.0}};
        w.ratio_intervals = {{"cudnn", {0.99 * fitness / 620.0, 1.01 * fitness / 620.0}}};
      }
      e.workloads.push_back(std::move(w));
    }
    if (!confirmed) return e;
    for (const char* distribution : {"ordinary", "outliers", "large magnitudes"}) {
      Exactness x;
      x.distribution = distribution;
      x.error = {1.02, 1.4, 0, 0};
      x.of_allowed = 0.97;
      x.contenders = {{"cudnn", {1.05, 1.9, 0, 0}}};
      e.exactness.push_back(x);
    }
    e.coverage = Coverage{};
    e.coverage->blocks = 61, e.coverage->ran = 59, e.coverage->specialisations = 2,
    e.coverage->drawn_runs = 4;
    e.coverage->not_run = {{"causal=1", "variant.cu", 21, 23, 2}};
    return e;
  }

  Profile profile(double fitness) const {
    Profile p;
    p.target = "cuda", p.device = "NVIDIA H100", p.workload = facts().workloads.front(), p.set = "full";
    p.value = fitness, p.unit = "TFLOPS", p.median_us = 1e6 / fitness, p.flops = 1e12, p.bytes = 3e9,
    p.flops_us = 900.0, p.bytes_us = 300.0;
    KernelProfile k;
    k.name = "attend";
    k.registers = 168, k.samples = 1000;
    k.stalls = {{"long_scoreboard", {410, 120}}, {"barrier", {220, 80}}, {"selected", {370, 0}}};
    k.lines = {{22, "float part3 = 3.0f * scale;", 260, {{"long_scoreboard", {200, 90}}}},
               {27, "float part8", 140, {{"barrier", {120, 60}}}}};
    p.kernels.push_back(k);
    return p;
  }

  void individual(Step& s, IndividualId id, bool judged = true) {
    static constexpr const char* operators[] = {"tune", "mutate",       "crossover",
                                                "tune", "evolve_sizes", "mutate"};
    const bool seed = id <= 2;
    now_ += any(2.0, 7.0);
    Individual i;
    i.id = id;
    i.variant_id = sha256_hex("variant" + std::to_string(id));
    const std::string op = seed ? "seed" : operators[id % 6];
    const IndividualId parent =
        seed ? 0
        : best_ != 0 && one_in(2.0)
            ? best_
            : std::max<IndividualId>(1, id - 1 - static_cast<IndividualId>(any(0.0, 60.0)));
    const bool tuned = op == "tune" || op == "evolve_sizes";
    const IndividualId source = tuned && parent > 0 ? sources_.at(static_cast<std::size_t>(parent - 1)) : id;
    sources_.push_back(source);
    i.source_id = "source" + std::to_string(source);
    i.configuration = {{"BLOCK_M", std::int64_t{64} << (id % 3)}, {"STAGES", std::int64_t{2 + id % 3}}};
    set_origin(i.descent, op);
    if (parent > 0) i.descent.parents = {parent};
    if (op == "crossover" && id > 10) i.descent.parents.push_back(id - 5);
    i.descent.island = run_.cells ? 0 : static_cast<int>(id % 4);
    const bool asked = op == "mutate" || op == "crossover";
    if (asked) i.descent.model = "large", i.descent.usd = 0.0123, i.descent.tokens = 5400;
    i.descent.note = seed    ? (id == 1 ? "naive.cu" : "warps.cu")
                     : tuned ? fmt::format("STAGES {} -> {}", 2 + (id + 1) % 3, 2 + id % 3)
                             : "Keeps the running maximum in registers and rescales only when it grows, "
                               "which saves one pass over the accumulators";
    if (run_.hostile && id % 3 == 0)
      i.descent.note = std::string(kAttack) + "\x1b[31m \u202e " + i.descent.note;
    std::string body;
    if (asked) body = proposal_body_of(++question_, 0.4);
    s.propose(i, source == id ? source_of(id) : "", "s", body);
    if (asked && question_ <= 200) calls_.push_back({op, question_, id});
    if (!judged) return;

    if (id % 50 == 0) intervene(s, id);
    Evaluation e;
    const bool refused = !seed && one_in(3.5);
    if (refused) {
      static constexpr std::pair<Stage, const char*> reasons[] = {
          {Stage::compile, "error: identifier \"warpgroup_wait\" is undefined"},
          {Stage::smoke, "wrong output: 12 of 4096 rows"},
          {Stage::stress, "wrong on outliers: row 17 is inf"},
          {Stage::lint, "the manifest names no launch"},
          {Stage::measure, "illegal memory access"}};
      const auto& [stage, reason] = reasons[id % 5];
      e = rejection(
          stage, run_.hostile && id % 2 == 0 ? std::string(reason) + kAttack : reason,
          fmt::format("kernel.cu(31): {}\n\n1 error detected in the compilation of \"kernel.cu\".\n",
                      reason));
      if (run_.hostile && id % 35 == 0) e.diagnostics += std::string(10 << 20, 'x') + kAttack;
      e.check_seconds = 0.3;
      s.judge(i, e);
      s.device_time(device_seconds(e));
      s.event("rejected", id, e.reason);
      return;
    }
    const double progress =
        1.0 - std::exp(-3.0 * static_cast<double>(id) / static_cast<double>(run_.individuals));
    i.fitness = seed ? 210.0 + 60.0 * static_cast<double>(id) : (320.0 + 380.0 * progress) * any(0.82, 1.0);
    i.measured = true;
    i.workload_values = {i.fitness, i.fitness, i.fitness};
    e = measured(id, i.fitness, false);
    std::map<std::string, double> descriptors;
    if (run_.cells)
      descriptors = {{"registers", any(40.0, 255.0)}, {"block_shared_bytes", any(1.0, 4.0) * 40'000.0}};
    s.judge(i, e, descriptors);
    s.device_time(device_seconds(e));
    if (id % 40 == 0) s.profile(id, profile(i.fitness));
    if (i.fitness > best_fitness_ * (1.0 + 0.004)) contend(s, id, i.fitness);
  }

  void contend(Step& s, IndividualId id, double fitness) {
    s.challenge(id);
    const double ratio = best_ == 0 ? 0.0 : std::log(fitness / best_fitness_);
    if (best_ != 0) {
      const bool better = ratio > 0.006;
      Decision d;
      d.verdict = better ? Verdict::better : Verdict::undecided;
      d.reason = better ? "the gain is shown" : "the limit of device time is reached";
      d.log_ratio = ratio, d.lower = ratio - 0.004, d.upper = ratio + 0.004;
      d.blocks = 40;
      for (const std::string& workload : facts().workloads)
        d.workloads.push_back({workload, ratio, ratio - 0.006, ratio + 0.006});
      s.duel(id, best_, d.verdict, 0.001, {{"decision", d}}, {false, !better, result_of(d, best_)});
      s.event("duel", id, fmt::format("against #{}: {}", best_, name_of(d.verdict)));
      if (!better) return;
    }
    const bool fails = best_ != 0 && id % 11 == 0;
    if (fails) {
      s.confirm(id, rejection(Stage::confirm, "wrong on a holdout shape: Sq=1", "row 0 differs"));
      s.expel(id);
      return;
    }
    s.confirm(id, measured(id, fitness, true));
    s.promote(id, fitness);
    s.event("promoted", id, fmt::format("{:.4g} TFLOPS", fitness));
    best_ = id;
    best_fitness_ = fitness;
  }

  void intervene(Step& s, IndividualId id) {
    Intervention i;
    i.number = ++interventions_;
    i.seen = 40.0;
    s.intervene(i);
    if (interventions_ % 3 != 0) s.outcome({interventions_, 20, 15, 1, 0.013});
    s.event("supervisor", id, text_of(i));
  }

  struct Asked {
    std::string op;
    std::int64_t question = 0;
    IndividualId id = 0;
  };

 public:
  // Over the connection of the exchanges, so between steps.
  void answer() {
    for (const Asked& asked : calls_) {
      SentRequest sent;
      sent.op = asked.op;
      sent.model = "large";
      sent.request.call = fmt::format("{}/{}/0", asked.op, asked.question);
      sent.request.system = {{"You improve GPU kernels.", true}};
      sent.request.messages = {
          {ChatRole::user, "Here is the kernel. Make it faster.\n" + source_of(asked.id)}};
      sent.request_hash = sha256_hex(sent.request.call);
      const ExchangeId id = must_have(exchanges_->sent(sent));
      ChatAnswer answer;
      answer.text = "Keep the maximum in registers.\n<edit>\n- a\n+ b\n</edit>";
      if (run_.hostile)
        answer.text += asked.question == 1 ? std::string(10 << 20, 'y') : std::string(kAttack) + "\x1b[2J";
      answer.usage = {4000, 0, 0, 1400, 900};
      must_have(exchanges_->arrived(id, answer, 0.0123));
    }
    calls_.clear();
  }

 private:
  SyntheticRun run_;
  RunFolder folder_;
  RecordWriter writer_;
  std::unique_ptr<ExchangeStore> exchanges_;
  std::mt19937 random_{7};
  double now_ = 0.0, best_fitness_ = 0.0;
  IndividualId best_ = 0;
  std::int64_t question_ = 0, interventions_ = 0;
  std::vector<IndividualId> sources_;
  std::vector<Asked> calls_;
};

}  // namespace

void write_synthetic_run(const std::filesystem::path& folder, const SyntheticRun& run) {
  SyntheticRun watched = run;
  if (watched.at_once <= 0) watched.at_once = std::max<std::int64_t>(1, run.individuals / 2000);
  Writer* at = nullptr;
  watched.goes_on = [&](std::int64_t count) {
    at->answer();
    return !run.goes_on || run.goes_on(count);
  };
  Writer writer(folder, watched);
  at = &writer;
  writer.write();
}

}  // namespace cultivar::testing
